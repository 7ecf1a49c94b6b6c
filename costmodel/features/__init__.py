"""Columns with names and units, for many candidates and platforms at once."""

from costmodel.features._extract import COLUMNS, extract
from costmodel.features._table import Column, FeatureTable, Group

__all__ = ["COLUMNS", "Column", "FeatureTable", "Group", "extract"]
