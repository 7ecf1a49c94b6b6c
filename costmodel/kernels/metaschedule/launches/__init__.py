"""What decisions mean for a program: loops, tiles, what it stages, and the kernels that it launches."""
