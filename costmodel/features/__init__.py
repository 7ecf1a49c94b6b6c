"""Columns with names and units, for many candidates and platforms at once."""

from costmodel.columns import Column
from costmodel.features._extract import COLUMNS, extract, extract_batch
from costmodel.features._in_columns import in_columns
from costmodel.features._table import FeatureTable
from costmodel.features.launches import estimate_launches

__all__ = [
    "COLUMNS",
    "Column",
    "FeatureTable",
    "estimate_launches",
    "extract",
    "extract_batch",
    "in_columns",
]
