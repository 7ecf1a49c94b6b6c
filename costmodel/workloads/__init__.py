"""Workloads from real models: networks written in TVM Relax, what they consist of, and a catalogue of it.

Importing this loads no TVM.
"""

from costmodel.workloads._catalogue import CatalogueEntry, catalogue, extractions
from costmodel.workloads._extract import Extraction, extract_workloads
from costmodel.workloads._networks import NETWORKS
from costmodel.workloads._programs import recognise_program

__all__ = [
    "NETWORKS",
    "CatalogueEntry",
    "Extraction",
    "catalogue",
    "extract_workloads",
    "extractions",
    "recognise_program",
]
