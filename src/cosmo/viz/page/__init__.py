"""One page for everything there is to see of a result: what `report.html` carries and the studio serves."""

from cosmo.viz.page.render import read_view, render_page
from cosmo.viz.page.views import comparison_view, experiment_view, model_view, paper_view

__all__ = ["comparison_view", "experiment_view", "model_view", "paper_view", "read_view", "render_page"]
