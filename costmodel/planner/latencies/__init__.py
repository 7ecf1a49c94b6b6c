"""Latencies of kernels by number of SMs: recorded in a dataset, predicted by a model, or by a roofline."""

from costmodel.planner.latencies._base import FirstKnown, KernelLatency, KernelTable, Latencies
from costmodel.planner.latencies._open import open_latencies
from costmodel.planner.latencies._predicted import PredictedLatencies
from costmodel.planner.latencies._recorded import RecordedLatencies
from costmodel.planner.latencies._roofline import L2_BYTES_S, RooflineLatencies

__all__ = [
    "L2_BYTES_S",
    "FirstKnown",
    "KernelLatency",
    "KernelTable",
    "Latencies",
    "PredictedLatencies",
    "RecordedLatencies",
    "RooflineLatencies",
    "open_latencies",
]
