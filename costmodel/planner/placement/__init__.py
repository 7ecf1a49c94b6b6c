"""Layers or operators over accelerators, slices of their SMs and CPUs, for throughput or for latency."""
