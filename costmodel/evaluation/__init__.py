"""Splits x learners x metrics: a report of how well kernels are chosen that were never measured."""

from costmodel.evaluation._evaluate import ModelFactory, evaluate
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import plot_report
from costmodel.evaluation._report import Report
from costmodel.evaluation._train import Trained, train

__all__ = [
    "KS",
    "RANDOM",
    "WHOLE_DEVICE",
    "ModelFactory",
    "Report",
    "Trained",
    "evaluate",
    "plot_report",
    "train",
]
