"""Slowdown of kernels next to others that run on other SMs of the same device."""

from costmodel.planner.neighbours._shared_memory import SharedMemory, Waits, fair_shares

__all__ = ["SharedMemory", "Waits", "fair_shares"]
