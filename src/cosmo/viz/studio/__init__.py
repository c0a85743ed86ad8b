"""`cosmo studio`: the page on a live model, served to one person on one machine (extra "studio")."""
