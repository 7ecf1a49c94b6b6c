"""Splits of a dataset into training and test rows."""
