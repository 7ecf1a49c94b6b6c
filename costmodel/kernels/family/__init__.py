"""Kernels with declared parameters, in whatever language: formulas, valid configs, spaces."""
