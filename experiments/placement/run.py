"""Are the optima of published and of small random graphs found and proven? See README.md here."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.files import write_json
from costmodel.planner import place
from costmodel.planner.placement._problem import read_placement

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "tests" / "planner"))
from every_placement import EveryPlacement, draw
from options import parse_options

PUBLISHED = (
    ("throughput-inputs/LayerGraphs/gnmt_inference.json", "throughput", True, 32.9106),
    ("throughput-inputs/LayerGraphs/bert24_inference.json", "throughput", True, 17.7899),
    ("throughput-inputs/LayerGraphs/bert24_inference.json", "throughput", False, 17.7147),
    ("throughput-inputs/OperatorGraphs/bert_l-3_inference.json", "throughput", True, 27.9186),
    ("throughput-inputs/LayerGraphs/bert24_training.json", "throughput", True, 41.7458),
    ("latency-inputs/LayerGraphs/bert24_inference.json", "latency", True, 100.219),
)
CASES = (("throughput", True), ("throughput", False), ("latency", True))


def main() -> None:
    arguments = parse()
    results = {
        "published": [solve(arguments, *case) for case in PUBLISHED],
        "random": enumerate_all(arguments.graphs, arguments.seconds),
    }
    if arguments.json:
        write_json(arguments.json, results)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="inputs of dnn-partitioning")
    parser.add_argument("--graphs", type=int, help="random graphs that are compared with all placements")
    parser.add_argument("--seconds", type=float, help="limit of the solver")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def solve(
    arguments: argparse.Namespace, name: str, objective: Any, contiguous: bool, known: float
) -> dict[str, object]:
    problem = read_placement(arguments.data / name)
    row: dict[str, object] = {"graph": name, "objective": objective, "contiguous": contiguous, "known": known}
    for method in ("greedy", "prefixes"):
        row[method] = place(problem, objective, contiguous=contiguous, method=method).value
    began = time.process_time()
    found = place(problem, objective, contiguous=contiguous, time_limit_s=arguments.seconds)
    row |= {"value": found.value, "bound": found.bound, "proven": found.is_optimal}
    row |= {"seconds": round(found.seconds, 2), "cpu_seconds": round(time.process_time() - began, 2)}
    print(row, flush=True)
    return row


def enumerate_all(graphs: int, seconds: float) -> dict[str, object]:
    """Cases whose value, and whose proof, agree with the best of all placements."""
    equal = proven = 0
    slowest = 0.0
    for seed in range(graphs):
        problem = draw(seed)
        every = EveryPlacement(problem)
        for objective, contiguous in CASES:
            best = (
                every.least_latency()
                if objective == "latency"
                else every.least_max_load(contiguous=contiguous)
            )
            found = place(problem, objective, contiguous=contiguous, time_limit_s=seconds)
            equal += abs(found.value - best) < 1e-6
            proven += found.is_optimal and found.bound <= best + 1e-9
            slowest = max(slowest, found.seconds)
    cases = graphs * len(CASES)
    result = {
        "graphs": graphs,
        "cases": cases,
        "equal": equal,
        "proven": proven,
        "slowest_s": round(slowest, 2),
    }
    print(result)
    return result


if __name__ == "__main__":
    main()
