"""Expert outputs, smoothing and the exact curve: pure functions on arrays."""
