"""Replay of a kernel graph, and its critical path."""
