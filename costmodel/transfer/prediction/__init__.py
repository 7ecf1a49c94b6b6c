"""Trained models as objects that predict kernels on platforms."""
