"""Features as columns with names and units, for many candidates and platforms at once."""

from costmodel.columns import Column
from costmodel.features._data_facts import DATA_COLUMNS
from costmodel.features._extract import COLUMNS, extract, extract_batch
from costmodel.features._in_chunks import KnownFeatures, extract_in_chunks
from costmodel.features._in_columns import in_columns
from costmodel.features._latency_parts import LatencyParts, PartSettings, latency_parts
from costmodel.features._parameters import parameter_columns
from costmodel.features._table import FeatureTable

__all__ = [
    "COLUMNS",
    "DATA_COLUMNS",
    "Column",
    "FeatureTable",
    "KnownFeatures",
    "LatencyParts",
    "PartSettings",
    "extract",
    "extract_batch",
    "extract_in_chunks",
    "in_columns",
    "latency_parts",
    "parameter_columns",
]
