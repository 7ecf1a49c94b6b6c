"""Balanced sparsity: every block of a row of weights has the same number of non-zeros."""
