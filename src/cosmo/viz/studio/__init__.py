"""`cosmo studio`: the page of a live model, served on this machine (extra "studio")."""
