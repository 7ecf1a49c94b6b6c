"""CUDA kernels with declared parameters, described in T1, as a source of kernels."""

from costmodel.former import answer_inside

__getattr__ = answer_inside(__name__)
