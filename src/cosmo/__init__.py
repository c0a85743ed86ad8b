"""COSMO: generalized zero-shot learning by adaptive confidence smoothing."""

__version__ = "0.1.0"
