"""From a problem to a placement, and what is known of how good it is."""

from collections.abc import Iterator
from graphlib import TopologicalSorter
from math import inf
from time import perf_counter
from typing import Literal, NamedTuple

import msgspec

from costmodel.arguments import check_number, check_seed
from costmodel.errors import CostModelError
from costmodel.planner.placement import _evaluate as evaluate
from costmodel.planner.placement._evaluate import DeviceLoad, Placed
from costmodel.planner.placement._improve import improve
from costmodel.planner.placement._models import bound_by_share, least_latency, least_max_load
from costmodel.planner.placement._prefixes import best_prefixes, fill
from costmodel.planner.placement._problem import Node, PlacementProblem
from costmodel.planner.placement._solver import has_solver, make_blocks

Objective = Literal["throughput", "latency"]
Method = Literal["cp-sat", "prefixes", "greedy", "given"]
# Costs are rounded for the solver, see Scale: what is proven to this share of the value counts as optimal.
_PROVEN = 1e-4
# Of the time for what is not proven: to make it better, the rest for a better bound.
_SEARCHED = 5 / 6


class _Task(NamedTuple):
    """What is asked for."""

    problem: PlacementProblem
    objective: Objective
    contiguous: bool

    def value(self, placed: Placed) -> float:
        """Return what a placement takes."""
        return (evaluate.latency if self.objective == "latency" else evaluate.max_load)(self.problem, placed)


class Placement(msgspec.Struct, frozen=True):
    """Where each node runs, what that takes, and how much better it could be.

    Attributes:
        objective: What ``value`` is: ``throughput``, the load of the busiest device, or ``latency``, of one
            sample.
        contiguous: Whether each device is called once a sample.
        device_of: Name of the device of each node.
        loads: What each device has to do.
        value: In the unit of the problem's times; less is better.
        bound: No placement of this problem is better.
        method: That found it.
        seconds: That it took.
    """

    objective: Objective
    contiguous: bool
    device_of: dict[int, str]
    loads: tuple[DeviceLoad, ...]
    value: float
    bound: float
    method: Method
    seconds: float

    @property
    def gap(self) -> float:
        """Share of the value that a better placement could save at most."""
        return max(0.0, 1 - self.bound / self.value) if self.value else 0.0

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that none is better by more than a ten-thousandth."""
        return self.gap <= _PROVEN


def place(  # noqa: PLR0913 (one argument a choice)
    problem: PlacementProblem,
    objective: Objective = "throughput",
    *,
    contiguous: bool = True,
    time_limit_s: float = 30.0,
    seed: int = 0,
    method: Method | None = None,
) -> Placement:
    """Place the nodes of a problem on its devices.

    Args:
        problem: What is placed.
        objective: ``throughput``: the load of the busiest device is least, as samples follow each other in a
            pipeline. ``latency``: one sample takes the least time; there are as many CPU cores as it needs if
            there is one.
        contiguous: Whether each device is called once a sample: no value of the forward pass returns to a
            device that it left.
        time_limit_s: Of the solver; where it ends before, the answer is the same for the same seed. If not
            contiguous, contiguous placements are first searched for as long, so that freedom is not worse;
            and where nothing is proven, clusters of nodes then move between devices, and two devices at a
            time share out their nodes anew, for as long.
        seed: Of the solver's random choices.
        method: ``cp-sat`` (OR-tools) searches and proves, ``prefixes`` cuts one topological order by a
            dynamic program, ``greedy`` fills accelerators in this order. If not given, ``cp-sat`` where
            OR-tools is installed, otherwise ``prefixes``.

    Raises:
        CostModelError: There is no placement, the method found none, or the objective does not apply.
        MissingExtraError: OR-tools is not installed, and ``method`` asks for it.

    Example:
        >>> from costmodel.planner import PlacementDevice
        >>> layers = (Node(id=0, latency=2.0), Node(id=1, latency=3.0))
        >>> devices = (PlacementDevice(name="a"), PlacementDevice(name="b"))
        >>> problem = PlacementProblem(layers, ((0, 1),), devices)
        >>> place(problem, method="prefixes").value
        3.0
    """
    check_seed(seed)
    check_number("time_limit_s", time_limit_s)
    started = perf_counter()
    method = method or ("cp-sat" if has_solver() else "prefixes")
    task = _Task(problem, objective, contiguous)
    _check(task, method)
    placed, value = _without_solver(task, method)
    bound = _simple_bound(problem, objective)
    if method == "cp-sat":
        if not contiguous:
            # The smaller problem first, as if it were asked for: what it finds is a placement, too.
            found, _ = _solve(task._replace(contiguous=True), value, time_limit_s, seed)
            if found is not None and (placed is None or task.value(found) < value):
                placed, value = found, task.value(found)
        found, proven = _solve(task, value, time_limit_s, seed)
        if proven == inf and placed is None:
            raise CostModelError(
                "Nodes must fit into the memory of devices that run them, but no placement does: "
                "give accelerators more memory, or add accelerators or a CPU."
            )
        if found is not None and (placed is None or task.value(found) < value):
            placed = found
        bound = max(bound, proven) if proven < inf else bound
        if placed is not None and not contiguous and task.value(placed) * (1 - _PROVEN) > bound:
            placed = improve(problem, placed, time_limit_s=time_limit_s * _SEARCHED, seed=seed)
            blocks, left_s = make_blocks(problem, contiguous=False), time_limit_s * (1 - _SEARCHED)
            known = task.value(placed)
            bound = max(bound, bound_by_share(blocks, known, time_limit_s=left_s, seed=seed))
    if placed is None:
        raise CostModelError(
            f"A placement must be found, but {method} found none: there may be too little memory. Give "
            "accelerators more memory, or the solver (method cp-sat) more time."
        )
    return _result(task, placed, bound, method, perf_counter() - started)


def judge_placement(
    problem: PlacementProblem,
    device_of: Placed,
    objective: Objective = "throughput",
    *,
    contiguous: bool = True,
) -> Placement:
    """Evaluate a placement that somebody made, such as an expert.

    Args:
        problem: What was placed.
        device_of: Name of the device of each node.
        objective: As of ``place``.
        contiguous: Whether it must be.

    Raises:
        CostModelError: It is no placement of the problem.
    """
    bound = _simple_bound(problem, objective)
    return _result(_Task(problem, objective, contiguous), device_of, bound, "given", 0.0)


def _result(task: _Task, placed: Placed, bound: float, method: Method, seconds: float) -> Placement:
    problem = task.problem
    evaluate.check_placed(problem, placed, contiguous=task.contiguous and task.objective == "throughput")
    value = task.value(placed)
    return Placement(
        task.objective,
        task.contiguous,
        {node.id: placed[node.id] for node in problem.nodes},
        evaluate.device_loads(problem, placed),
        value,
        min(bound, value),
        method,
        seconds,
    )


def _check(task: _Task, method: str) -> None:
    problem, objective, contiguous = task
    for what, got, known in (
        ("objective", objective, ("throughput", "latency")),
        ("method", method, ("cp-sat", "prefixes", "greedy")),
    ):
        if got not in known:
            raise CostModelError(f"{what} must be one of {', '.join(known)}, but got {got!r}.")
    backward = [node.id for node in problem.nodes if node.backward]
    if objective == "latency" and backward:
        raise CostModelError(
            f"Latency is defined for inference only: no node may be backward, but node {backward[0]} is. "
            "Ask for throughput."
        )
    if objective == "latency" and not contiguous:
        raise CostModelError("The latency of a sample is known for contiguous placements only: ask for one.")


def _without_solver(task: _Task, method: Method) -> tuple[Placed | None, float]:
    """The best of what costs no search, with its value; without any a value that no placement exceeds."""
    blocks = make_blocks(task.problem, contiguous=True)
    latency = task.objective == "latency"
    candidates = [fill(blocks, free_cpus=latency)]
    if method != "greedy":
        candidates.append(best_prefixes(blocks, total=latency, free_cpus=latency))
    found = [(each, task.value(each)) for each in candidates if each is not None]
    return min(found, key=lambda each: each[1], default=(None, _most(task.problem)))


def _solve(task: _Task, known: float, time_limit_s: float, seed: int) -> tuple[dict[int, str] | None, float]:
    problem, objective, contiguous = task
    if objective == "latency":
        return least_latency(problem, known, time_limit_s=time_limit_s, seed=seed)
    blocks = make_blocks(problem, contiguous=contiguous)
    return least_max_load(blocks, known, contiguous=contiguous, time_limit_s=time_limit_s, seed=seed)


def _times(problem: PlacementProblem) -> Iterator[tuple[Node, list[float]]]:
    """Of each node the times that it takes on devices that run it."""
    for node in problem.nodes:
        yield node, [time for each in problem.devices if (time := each.latency(node)) < inf]


def _most(problem: PlacementProblem) -> float:
    """Everything in sequence, where it is slowest, with every value moved out and in again by each device."""
    moves = 2 * len(problem.devices)
    return sum(max(times) + moves * node.transfer for node, times in _times(problem))


def _simple_bound(problem: PlacementProblem, objective: Objective) -> float:
    """The critical path for latency; for throughput the costliest node, and all nodes shared out evenly."""
    least = {node.id: min(times) for node, times in _times(problem)}
    if objective == "throughput":
        return max(max(least.values(), default=0.0), sum(least.values()) / len(problem.devices))
    needs: dict[int, set[int]] = {node.id: set() for node in problem.nodes}
    for source, target in problem.edges:
        needs[target].add(source)
    end: dict[int, float] = {}
    for node_id in TopologicalSorter(needs).static_order():
        end[node_id] = least[node_id] + max((end[each] for each in needs[node_id]), default=0.0)
    return max(end.values(), default=0.0)
