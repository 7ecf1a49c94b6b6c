"""From records to a published dataset and back: build, load, describe, split."""

from costmodel.dataset._arrow import dataset_from_measurements
from costmodel.dataset._build import BuildReport, build_dataset
from costmodel.dataset._card import CardHeader, read_card_header, render_card
from costmodel.dataset._checksums import dataset_hash
from costmodel.dataset._coverage import Coverage
from costmodel.dataset._dataset import Dataset
from costmodel.dataset._describe import Describer, Description, describe
from costmodel.dataset._diff import Diff, WorkloadDiff, diff
from costmodel.dataset._examine import Examination, FileCount, examine, write_rejects
from costmodel.dataset._export import EXPORT_FORMATS, export_dataset
from costmodel.dataset._export_report import ExportReport
from costmodel.dataset._finding import Finding, Severity
from costmodel.dataset._folds import Fold, draw_rows, on_whole_device
from costmodel.dataset._noise import Noise, Quantiles
from costmodel.dataset._parquet import check_dataset, iter_datasets, load_dataset
from costmodel.dataset._plots import write_plots
from costmodel.dataset._read import ReadOptions
from costmodel.dataset._rows import iter_measurements
from costmodel.dataset._shipped import shipped_dataset
from costmodel.dataset._similarity import DeviceSimilarity, device_similarity, twin_groups
from costmodel.dataset._split_file import read_split, write_split
from costmodel.dataset._splits import (
    LEAVE_ONE_OUT,
    STRATEGIES,
    WHOLE_DEVICE_ONLY,
    Split,
    SplitRecipe,
    check_split,
    make_split,
)
from costmodel.dataset._summary import TextTable, summary_tables
from costmodel.dataset._tasks import Budget, Task
from costmodel.dataset._used import dataset_used

__all__ = [
    "EXPORT_FORMATS",
    "LEAVE_ONE_OUT",
    "STRATEGIES",
    "WHOLE_DEVICE_ONLY",
    "Budget",
    "BuildReport",
    "CardHeader",
    "Coverage",
    "Dataset",
    "Describer",
    "Description",
    "DeviceSimilarity",
    "Diff",
    "Examination",
    "ExportReport",
    "FileCount",
    "Finding",
    "Fold",
    "Noise",
    "Quantiles",
    "ReadOptions",
    "Severity",
    "Split",
    "SplitRecipe",
    "Task",
    "TextTable",
    "WorkloadDiff",
    "build_dataset",
    "check_dataset",
    "check_split",
    "dataset_from_measurements",
    "dataset_hash",
    "dataset_used",
    "describe",
    "device_similarity",
    "diff",
    "draw_rows",
    "examine",
    "export_dataset",
    "iter_datasets",
    "iter_measurements",
    "load_dataset",
    "make_split",
    "on_whole_device",
    "read_card_header",
    "read_split",
    "render_card",
    "shipped_dataset",
    "summary_tables",
    "twin_groups",
    "write_plots",
    "write_rejects",
    "write_split",
]
