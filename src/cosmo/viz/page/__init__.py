"""The interactive page: `report.html` contains it, the studio serves it."""

from cosmo.viz.page.render import read_view, render_page
from cosmo.viz.page.views import comparison_view, experiment_view, model_view, paper_view

__all__ = ["comparison_view", "experiment_view", "model_view", "paper_view", "read_view", "render_page"]
