"""From records to a published dataset and back: build, load, describe."""

from costmodel.dataset._arrow import dataset_from_measurements
from costmodel.dataset._build import BuildReport, build_dataset
from costmodel.dataset._card import CardHeader, read_card_header, render_card
from costmodel.dataset._checksums import dataset_hash
from costmodel.dataset._coverage import Coverage
from costmodel.dataset._dataset import Dataset
from costmodel.dataset._describe import Description, describe
from costmodel.dataset._examine import Examination, FileCount, examine, write_rejects
from costmodel.dataset._finding import Finding, Severity
from costmodel.dataset._noise import Noise, Quantiles
from costmodel.dataset._parquet import load_dataset
from costmodel.dataset._plots import write_plots
from costmodel.dataset._shipped import shipped_dataset
from costmodel.dataset._summary import TextTable, summary_tables
from costmodel.dataset._tasks import Budget, Task

__all__ = [
    "Budget",
    "BuildReport",
    "CardHeader",
    "Coverage",
    "Dataset",
    "Description",
    "Examination",
    "FileCount",
    "Finding",
    "Noise",
    "Quantiles",
    "Severity",
    "Task",
    "TextTable",
    "build_dataset",
    "dataset_from_measurements",
    "dataset_hash",
    "describe",
    "examine",
    "load_dataset",
    "read_card_header",
    "render_card",
    "shipped_dataset",
    "summary_tables",
    "write_plots",
    "write_rejects",
]
