"""Portfolios: a few kernels for many SM budgets, and dispatch tables."""
