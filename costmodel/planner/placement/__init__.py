"""Layers or operators over accelerators, slices of their SMs and CPUs, for throughput or for latency.

Example:
    >>> from costmodel.planner.placement import Device, Node, PlacementProblem, place
    >>> layers = tuple(Node(id=i, latency=1.0, transfer=0.25) for i in range(4))
    >>> chain = ((0, 1), (1, 2), (2, 3))
    >>> problem = PlacementProblem(layers, chain, (Device(name="gpu 0"), Device(name="gpu 1")))
    >>> found = place(problem)
    >>> found.value, found.is_optimal, found.device_of[3] != found.device_of[0]
    (2.25, True, True)
"""

from costmodel.planner.placement._evaluate import DeviceLoad
from costmodel.planner.placement._place import Method, Objective, Placement, judge, place
from costmodel.planner.placement._problem import Device, Node, PlacementProblem, slices
from costmodel.planner.placement._read import read_placement, read_split

__all__ = [
    "Device",
    "DeviceLoad",
    "Method",
    "Node",
    "Objective",
    "Placement",
    "PlacementProblem",
    "judge",
    "place",
    "read_placement",
    "read_split",
    "slices",
]
