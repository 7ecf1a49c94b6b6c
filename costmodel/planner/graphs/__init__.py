"""Kernel graphs and where they come from: PyTorch's profiler, Relax modules, and a JSON of one's own."""

from costmodel.planner.graphs._base import (
    DEVICE_KINDS,
    Dependencies,
    DependencyKind,
    KernelGraph,
    Resource,
    TaskKind,
)
from costmodel.planner.graphs._float16 import in_float16
from costmodel.planner.graphs._inspection import RULES, Inspection
from costmodel.planner.graphs._json_graph import JsonGraph, JsonTask, graph_of, read_graph
from costmodel.planner.graphs._order import grouped, topological_order
from costmodel.planner.graphs._recorded import RecordedGraph
from costmodel.planner.graphs._relax import is_module_place, read_relax
from costmodel.planner.graphs.kineto import read_kineto

__all__ = [
    "DEVICE_KINDS",
    "RULES",
    "Dependencies",
    "DependencyKind",
    "Inspection",
    "JsonGraph",
    "JsonTask",
    "KernelGraph",
    "RecordedGraph",
    "Resource",
    "TaskKind",
    "graph_of",
    "grouped",
    "in_float16",
    "is_module_place",
    "read_graph",
    "read_kineto",
    "read_relax",
    "topological_order",
]
