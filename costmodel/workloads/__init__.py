"""Workloads from real models: networks written in TVM Relax, their contents, and a catalogue of workloads.

Importing this package does not load TVM. The modules that load it are ``relax`` (fusing, and recognising
kernels) and ``networks``. Workloads, catalogue and extractions are independent of the source of kernels.
"""

from costmodel.workloads._calls import ModuleCall, calls_of, read_calls
from costmodel.workloads._catalogue import CatalogueEntry, catalogue, extractions
from costmodel.workloads._extract import Extraction, extract_networks, extract_workloads
from costmodel.workloads._networks import NETWORKS
from costmodel.workloads._programs import recognise_program
from costmodel.workloads._sample import sample_workloads

__all__ = [
    "NETWORKS",
    "CatalogueEntry",
    "Extraction",
    "ModuleCall",
    "calls_of",
    "catalogue",
    "extract_networks",
    "extract_workloads",
    "extractions",
    "read_calls",
    "recognise_program",
    "sample_workloads",
]
