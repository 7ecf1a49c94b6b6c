"""Triton kernels with declared parameters as a source of kernels; importing it loads no Triton."""
