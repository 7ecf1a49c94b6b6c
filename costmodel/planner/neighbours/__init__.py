"""Slowdown of kernels next to others that run on other SMs of the same device."""
