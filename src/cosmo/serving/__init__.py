"""What the studio and `cosmo serve` share, and the API of `cosmo serve`."""
