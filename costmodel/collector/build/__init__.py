"""From candidates to kernels, in builder processes that need no GPU."""
