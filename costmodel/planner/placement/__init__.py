"""Layers or operators over accelerators, slices of their SMs and CPUs, for throughput or for latency."""

from costmodel.former import answer_inside

__getattr__ = answer_inside(__name__)
