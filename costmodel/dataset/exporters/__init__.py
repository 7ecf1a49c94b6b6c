"""Writers of the formats of other programs."""

from costmodel.dataset.exporters._export import EXPORT_FORMATS, export_dataset
from costmodel.dataset.exporters._json import kernel_tuner_cache, t4_document
from costmodel.dataset.exporters._own import export_parquet, export_records
from costmodel.dataset.exporters._report import ExportReport, by_task, file_name, write_json_file

__all__ = [
    "EXPORT_FORMATS",
    "ExportReport",
    "by_task",
    "export_dataset",
    "export_parquet",
    "export_records",
    "file_name",
    "kernel_tuner_cache",
    "t4_document",
    "write_json_file",
]
