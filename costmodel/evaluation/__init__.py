"""Splits x learners x metrics: a report of how well kernels are chosen that were never measured."""

from costmodel.evaluation._evaluate import ModelFactory, evaluate
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import plot_report
from costmodel.evaluation._report import Report
from costmodel.evaluation._splits import SPLITS, Split, check_no_leak, leave_one_out, split_column
from costmodel.evaluation._train import Trained, train

__all__ = [
    "KS",
    "RANDOM",
    "SPLITS",
    "WHOLE_DEVICE",
    "ModelFactory",
    "Report",
    "Split",
    "Trained",
    "check_no_leak",
    "evaluate",
    "leave_one_out",
    "plot_report",
    "split_column",
    "train",
]
