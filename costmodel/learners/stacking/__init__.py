"""Several learners in one, weighted by predictions of what they did not see."""

from costmodel.learners.stacking._above_analytic import AboveAnalytic
from costmodel.learners.stacking._out_of_fold import out_of_fold
from costmodel.learners.stacking._stack import Stack, simplex_weights

__all__ = ["AboveAnalytic", "Stack", "out_of_fold", "simplex_weights"]
