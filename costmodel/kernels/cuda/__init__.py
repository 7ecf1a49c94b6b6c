"""CUDA kernels with declared parameters, described in T1, as a source of kernels."""
