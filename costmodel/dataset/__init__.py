"""From records to a published dataset and back: build, load, describe."""

from costmodel.dataset._arrow import dataset_from_measurements
from costmodel.dataset._build import BuildReport, build_dataset
from costmodel.dataset._card import CardHeader, read_card_header, render_card
from costmodel.dataset._checksums import dataset_hash
from costmodel.dataset._dataset import Dataset
from costmodel.dataset._describe import Description, describe
from costmodel.dataset._export import EXPORT_FORMATS, export_dataset
from costmodel.dataset._export_report import ExportReport
from costmodel.dataset._noise import Noise, Quantiles
from costmodel.dataset._parquet import load_dataset
from costmodel.dataset._plots import write_plots
from costmodel.dataset._read import ReadOptions
from costmodel.dataset._rows import iter_measurements
from costmodel.dataset._shipped import shipped_dataset
from costmodel.dataset._summary import TextTable, summary_tables
from costmodel.dataset._tasks import Budget, Task

__all__ = [
    "EXPORT_FORMATS",
    "Budget",
    "BuildReport",
    "CardHeader",
    "Dataset",
    "Description",
    "ExportReport",
    "Noise",
    "Quantiles",
    "ReadOptions",
    "Task",
    "TextTable",
    "build_dataset",
    "dataset_from_measurements",
    "dataset_hash",
    "describe",
    "export_dataset",
    "iter_measurements",
    "load_dataset",
    "read_card_header",
    "render_card",
    "shipped_dataset",
    "summary_tables",
    "write_plots",
]
