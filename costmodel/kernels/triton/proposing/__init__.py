"""Configs of Triton kernels that come without a list; importing it loads no Triton."""
