"""Pictures of a report."""

from costmodel.evaluation.pictures._draw import draw_by_budget, draw_by_learner, draw_report, plot_held_out
from costmodel.evaluation.pictures._shots import draw_by_shots

__all__ = ["draw_by_budget", "draw_by_learner", "draw_by_shots", "draw_report", "plot_held_out"]
