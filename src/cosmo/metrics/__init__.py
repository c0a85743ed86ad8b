"""Measures of generalized zero-shot learning."""

from cosmo.metrics.accuracy import *  # noqa: F403
from cosmo.metrics.accuracy import __all__ as __all__
