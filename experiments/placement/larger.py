"""Is a training graph of the size of BERT-12's placed to within 5 % of its bound? See README.md.

The published operator graph of BERT-3 four times, one behind the other, each node with a backward one that
takes twice as long, of the same colour, and that reads what it made and what comes back.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from costmodel.files import write_json
from costmodel.planner import PlacementDevice, PlacementProblem, place
from costmodel.planner.placement._problem import read_placement

INFERENCE = "throughput-inputs/OperatorGraphs/bert_l-3_inference.json"
COPIES, ACCELERATORS = 4, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--seconds", type=float, default=40.0, help="limit of the solver")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    problem = trained(read_placement(arguments.data / INFERENCE))
    rows = {"nodes": len(problem.nodes), "edges": len(problem.edges)}
    for contiguous in (True, False):
        found = place(problem, contiguous=contiguous, time_limit_s=arguments.seconds)
        name = "contiguous" if contiguous else "not contiguous"
        rows[name] = {"value": found.value, "bound": found.bound, "gap": found.gap, "seconds": found.seconds}
        print(name, rows[name], flush=True)
    if arguments.json:
        write_json(arguments.json, rows)


@dataclass(frozen=True)
class _Ends:
    """The first node that reads nothing, and the node nobody reads whose output is largest."""

    first: int
    last: int


def trained(problem: PlacementProblem) -> PlacementProblem:
    """Copies of a graph one behind the other, and their backward nodes."""
    step = max(node.id for node in problem.nodes) + 1
    ends = _ends(problem)
    nodes = [
        replace(node, id=node.id + copy * step, colour=_colour(node.id, node.colour, copy))
        for copy in range(COPIES)
        for node in problem.nodes
    ]
    edges = [(a + copy * step, b + copy * step) for copy in range(COPIES) for a, b in problem.edges]
    edges += [(ends.last + (copy - 1) * step, ends.first + copy * step) for copy in range(1, COPIES)]
    behind = COPIES * step
    backward = [
        replace(
            node,
            id=node.id + behind,
            backward=True,
            latency=2 * node.latency,
            cpu_latency=2 * node.cpu_latency,
            memory=0.0,
        )
        for node in nodes
    ]
    back = [(b + behind, a + behind) for a, b in edges] + [(node.id, node.id + behind) for node in nodes]
    memory = max(device.memory for device in problem.devices if not device.is_cpu)
    accelerators = (PlacementDevice(name=f"accelerator {i + 1}", memory=memory) for i in range(ACCELERATORS))
    devices = (*accelerators, PlacementDevice(name="cpu 1", is_cpu=True))
    return PlacementProblem((*nodes, *backward), (*edges, *back), devices)


def _colour(node: int, colour: int | None, copy: int) -> int:
    """A colour of each copy; of a free node one of its own, which its backward node shares."""
    own = 1_000_000 + node if colour is None else colour
    return own + copy * 10_000_000


def _ends(problem: PlacementProblem) -> _Ends:
    read, reading = {a for a, _ in problem.edges}, {b for _, b in problem.edges}
    first = next(node.id for node in problem.nodes if node.id not in reading)
    last = max((node for node in problem.nodes if node.id not in read), key=lambda node: node.transfer)
    return _Ends(first, last.id)


if __name__ == "__main__":
    main()
