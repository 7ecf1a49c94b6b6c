"""Tables of other programs: CSV and Parquet."""

from costmodel.dataset.importers.tables._file import TABLE

__all__ = ["TABLE"]
