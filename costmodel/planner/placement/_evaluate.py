"""Cost of a placement, by the model of Tarnawski et al. (NeurIPS 2020), in exact numbers.

A value that crosses the border of an accelerator is moved once, before or after its work, and the accelerator
waits: its load is the time of its nodes and of these transfers. A CPU reads the host's memory and pays
    nothing.
"""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from math import inf

import msgspec

from costmodel.errors import CostModelError, did_you_mean
from costmodel.planner.placement._problem import PlacementProblem, colours

Placed = Mapping[int, str]  # name of the device of each node


class DeviceLoad(msgspec.Struct, frozen=True):
    """What one device has to do for each sample.

    Attributes:
        device: Its name.
        nodes: Ids, in the order of the problem.
        compute: Time of the nodes.
        transfer: Time of what is moved in and out; 0 on a CPU.
        memory: Bytes of the nodes.
    """

    device: str
    nodes: tuple[int, ...]
    compute: float
    transfer: float
    memory: float

    @property
    def load(self) -> float:
        """Time that it is busy."""
        return self.compute + self.transfer


def device_loads(problem: PlacementProblem, placed: Placed) -> tuple[DeviceLoad, ...]:
    """Return what each device has to do, in the order of the problem's devices."""
    moved = {device.name: 0.0 for device in problem.devices}
    costs = {node.id: node.transfer for node in problem.nodes}
    for source, crossed in _crossings(problem, placed):
        moved[crossed] += costs[source]
    found = []
    for device in problem.devices:
        nodes = [node for node in problem.nodes if placed[node.id] == device.name]
        found.append(
            DeviceLoad(
                device.name,
                tuple(node.id for node in nodes),
                sum(device.latency(node) for node in nodes),
                0.0 if device.is_cpu else moved[device.name],
                sum(node.memory for node in nodes),
            )
        )
    return tuple(found)


def max_load(problem: PlacementProblem, placed: Placed) -> float:
    """Return the time per sample of a pipeline: the load of its busiest device."""
    return max(each.load for each in device_loads(problem, placed))


def latency(problem: PlacementProblem, placed: Placed) -> float:
    """Return the time of one sample from its first node to its last.

    An accelerator is called once: it waits for all that it reads. Nodes on CPUs begin when their inputs are
    there, each on a core of its own.

    Raises:
        CostModelError: Accelerators wait for each other, as the placement is not contiguous.
    """
    loads = {each.device: each.load for each in device_loads(problem, placed)}
    step_of = _steps(problem, placed)
    duration = {step: loads.get(str(step), 0.0) for step in step_of.values()}
    cpus = {device.name: device for device in problem.devices if device.is_cpu}
    for node in problem.nodes:
        if placed[node.id] in cpus:
            duration[node.id] = cpus[placed[node.id]].latency(node)
    needs = _needs(problem, step_of)
    end: dict[object, float] = {}
    for step in _in_order(needs):
        end[step] = duration[step] + max((end[each] for each in needs[step]), default=0.0)
    return max(end.values(), default=0.0)


def check_placed(problem: PlacementProblem, placed: Placed, *, contiguous: bool) -> None:
    """Check that a placement is one.

    Args:
        problem: What is placed.
        placed: Name of the device of each node.
        contiguous: Whether devices must be able to run one after the other, each called once a sample: values
            of forward nodes do not return to a device that they left, on whatever way.

    Raises:
        CostModelError: A node is missing or on an unknown device, or one that cannot run it; a colour is on
            two devices; memory does not suffice; a value returns.
    """
    names = {device.name: device for device in problem.devices}
    for node in problem.nodes:
        name = placed.get(node.id, "nothing")
        if name not in names:
            raise CostModelError(
                f"Node {node.id} must be on a device, but is on {name}.{did_you_mean(name, names)}"
            )
        if names[name].latency(node) == inf:
            raise CostModelError(f"Node {node.id} must be on a device that runs it, but is on {name}.")
    for members in colours(problem):
        found = sorted({placed[problem.nodes[i].id] for i in members})
        if len(found) > 1:
            colour = problem.nodes[members[0]].colour
            raise CostModelError(f"Colour {colour} must be on one device, but is on {' and '.join(found)}.")
    for each in device_loads(problem, placed):
        device = names[each.device]
        if not device.is_cpu and each.memory > device.memory:
            raise CostModelError(
                f"{each.device} must hold its nodes in {device.memory:,.0f} bytes, "
                f"but they take {each.memory:,.0f}."
            )
    if contiguous:
        _in_order(_needs(problem, {node.id: placed[node.id] for node in problem.nodes if not node.backward}))


def _crossings(problem: PlacementProblem, placed: Placed) -> Iterator[tuple[int, str]]:
    """Each node and device whose border its output crosses, once."""
    found = {
        (source, device)
        for source, target in problem.edges
        if placed[source] != placed[target]
        for device in (placed[source], placed[target])
    }
    return iter(sorted(found))


def _steps(problem: PlacementProblem, placed: Placed) -> dict[int, object]:
    """What each node is part of: the one call of its accelerator, or itself on a CPU."""
    cpus = {device.name for device in problem.devices if device.is_cpu}
    return {node.id: node.id if placed[node.id] in cpus else placed[node.id] for node in problem.nodes}


def _needs(problem: PlacementProblem, step_of: Mapping[int, object]) -> dict[object, set[object]]:
    """For each step those before it; nodes without a step are left out."""
    needs: dict[object, set[object]] = {step: set() for step in step_of.values()}
    for source, target in problem.edges:
        if source in step_of and target in step_of and step_of[source] != step_of[target]:
            needs[step_of[target]].add(step_of[source])
    return needs


def _in_order(needs: Mapping[object, set[object]]) -> list[object]:
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = " to ".join(map(str, error.args[1]))
        raise CostModelError(f"A contiguous placement must send no value back, but sends {circle}.") from None
