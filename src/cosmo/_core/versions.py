"""The versions of what results depend on, which models and runs carry with them."""

from __future__ import annotations

import platform
from importlib.metadata import version

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that a model's answers depend on.

    Examples
    --------
    >>> list(versions())
    ['python', 'cosmo-gzsl', 'numpy', 'scipy', 'scikit-learn', 'pandas']
    """
    libraries = ("cosmo-gzsl", "numpy", "scipy", "scikit-learn", "pandas")
    return {"python": platform.python_version(), **{name: version(name) for name in libraries}}
