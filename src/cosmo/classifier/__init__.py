"""The estimator and its parts."""
