"""Splits of a dataset into training and test rows."""

from costmodel.dataset.splits._file import read_split, write_split
from costmodel.dataset.splits._final import (
    FINAL_REPORT,
    choose_final_shapes,
    without_final_report,
    write_final_shapes,
)
from costmodel.dataset.splits._fold_sizes import FoldSize, fold_sizes
from costmodel.dataset.splits._folds import Fold, draw_rows, on_whole_device
from costmodel.dataset.splits._labels import shape_siblings
from costmodel.dataset.splits._make import (
    LEAVE_ONE_OUT,
    STRATEGIES,
    WHOLE_DEVICE_ONLY,
    Split,
    SplitRecipe,
    check_split,
    make_split,
)
from costmodel.dataset.splits._run_lengths import run_lengths, taken_by
from costmodel.dataset.splits._similarity import (
    DevicePair,
    DeviceSimilarity,
    describe_pairs,
    device_part,
    device_similarity,
    latencies_by_part,
    similarity_of,
    task_agreements,
    twin_groups,
)

__all__ = [
    "FINAL_REPORT",
    "LEAVE_ONE_OUT",
    "STRATEGIES",
    "WHOLE_DEVICE_ONLY",
    "DevicePair",
    "DeviceSimilarity",
    "Fold",
    "FoldSize",
    "Split",
    "SplitRecipe",
    "check_split",
    "choose_final_shapes",
    "describe_pairs",
    "device_part",
    "device_similarity",
    "draw_rows",
    "fold_sizes",
    "latencies_by_part",
    "make_split",
    "on_whole_device",
    "read_split",
    "run_lengths",
    "shape_siblings",
    "similarity_of",
    "taken_by",
    "task_agreements",
    "twin_groups",
    "without_final_report",
    "write_final_shapes",
    "write_split",
]
