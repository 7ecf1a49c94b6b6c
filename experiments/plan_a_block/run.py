"""What the planner says of a block of a transformer, beside what a GPU measured. See README.md here."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import costmodel
from costmodel.files import write_json
from costmodel.planner import (
    FirstKnown,
    PredictedLatencies,
    RooflineLatencies,
    read_relax,
    replay,
    same_kernels_on_sms,
)
from costmodel.planner._latencies import Latencies
from costmodel.records import Device, Workload, find_device

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "network_on_part"))
from kit.results import markdown_table
from options import parse_options

EXPERIMENTS = Path(__file__).parents[1]
# The block that `network_on_part` measured: its SMs by the names of its result, and which way tuned it.
SMS = {"part": 32, "whole": 132}
TUNED = {"part": "ours-part", "whole": "ours-whole"}
TOKENS, SIZE, HEADS = 128, 512, 8


def main() -> None:
    arguments = parse()
    rows = list(results(arguments))
    print(table(rows))
    if arguments.json:
        write_json(arguments.json, {"measured_us": measured(), "rows": rows})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="device that was measured")
    parser.add_argument("--data", help="dataset that models learn from")
    parser.add_argument("--learner", nargs="+", help="learners to predict with")
    parser.add_argument("--pool", type=int, help="kernels that are chosen of each workload")
    parser.add_argument("--seeds", type=int, help="draws of these kernels")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def results(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each way says, in microseconds by ``tuned for on``, with the relative error of each."""
    from transformer_block import Block

    module, device = Block(TOKENS, SIZE, HEADS).module(), find_device(arguments.device)
    yield row("roofline", said(module, RooflineLatencies(device)))
    whole = measured()["whole on whole"]
    ratio = SMS["whole"] / SMS["part"]
    yield row("measured on all SMs, times SMs", {"whole on part": whole * ratio})
    yield row("measured on all SMs, unchanged", {"whole on part": whole})
    for name in arguments.learner:
        model = costmodel.train(arguments.data, name)
        known = {each.name: each for each in model.metadata.devices}
        for seed in range(arguments.seeds):
            latencies = predicted(model, known[device.name], arguments.pool, seed)
            found = row(f"{name}, draw {seed}", said(module, latencies))
            yield found | {"interval_us": intervals(module, latencies)}


def predicted(model: costmodel.Model, device: Device, pool: int, seed: int) -> Latencies:
    chosen = PredictedLatencies(model, device, good_at=tuple(SMS.values()), pool=pool, seed=seed)
    return FirstKnown(chosen, RooflineLatencies(device))


def said(module: Any, latencies: Latencies) -> dict[str, float]:
    """Microseconds of the block, by the part that it is tuned for and the part that it runs on."""
    found = {}
    for tuned, sms in SMS.items():
        graph = read_relax(module, latencies, sms=sms).graph
        for part, granted in SMS.items():
            on = graph if granted == sms else same_kernels_on_sms(graph, granted, latencies)
            found[f"{tuned} on {part}"] = 1e6 * replay(on).makespan_s
    return found


def intervals(module: Any, latencies: Latencies) -> dict[str, list[float]]:
    """Ends of the 90 % intervals of kernels on the SMs that they are tuned for, added up, in microseconds."""
    found = {}
    for tuned, sms in SMS.items():
        graph = read_relax(module, latencies, sms=sms).graph
        tables = [latencies.kernels(Workload.parse(graph.workload(task))) for task in range(len(graph))]
        best = [kernel for table in tables if table and (kernel := table.best(sms))]
        ends = (sum(each.low_s for each in best), sum(each.high_s for each in best))
        found[f"{tuned} on {tuned}"] = [1e6 * end for end in ends]
    return found


def measured() -> dict[str, float]:
    """What the GPU measured, in microseconds by ``tuned for on``."""
    result = json.loads((EXPERIMENTS / "network_on_part" / "result.json").read_text())
    seconds = {tuned: result["latency_s"][way] for tuned, way in TUNED.items()}
    return {f"{tuned} on {part}": 1e6 * seconds[tuned][part] for tuned in SMS for part in SMS}


def row(name: str, us: dict[str, float]) -> dict[str, Any]:
    truth = measured()
    errors = {case: value / truth[case] - 1.0 for case, value in us.items()}
    return {"way": name, "us": us, "error": errors, "median_error": median(map(abs, errors.values()))}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row a way, microseconds and the error of each."""
    cases = list(measured())
    lines = [["measured", *(f"{us:.1f}" for us in measured().values()), ""]]
    for each in rows:
        cells = [
            f"{each['us'][case]:.1f} ({each['error'][case]:+.0%})" if case in each["us"] else ""
            for case in cases
        ]
        lines.append([each["way"], *cells, f"{each['median_error']:.0%}"])
    return markdown_table(["way", *cases, "median error"], lines)


if __name__ == "__main__":
    main()
