"""Runtimes: what loads and launches the kernels of a source, by the kind of its artifacts."""
