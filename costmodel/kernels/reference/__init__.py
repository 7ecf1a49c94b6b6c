"""Inputs of an operator, its right output by NumPy, and whether a kernel's output agrees with it."""
