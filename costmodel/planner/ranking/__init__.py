"""What to tune next: kernels of a graph by what tuning them is expected to gain of the whole."""
