"""Figures, the report page and the studio."""
