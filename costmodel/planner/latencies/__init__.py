"""Latencies of kernels by number of SMs: recorded in a dataset, predicted by a model, or by a roofline."""
