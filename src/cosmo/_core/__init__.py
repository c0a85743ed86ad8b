"""Input checks, files, caches and optional dependencies shared by every room."""
