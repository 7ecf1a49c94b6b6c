"""Uncertainty of a model: calibrated intervals, and unfamiliarity of a row with the training data."""
