"""Two dependent kernels whose tiles are synchronised: the second starts before the first has ended."""
