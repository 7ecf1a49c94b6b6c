"""Optuna samplers that propose configs of a space."""
