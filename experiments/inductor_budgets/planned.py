"""What networks take by a plan that needs no GPU, beside what was measured of them (in planned.json)."""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import torch
from kit.results import markdown_table, rounded
from networks import JUDGED
from ways import DEFAULT, EAGER

from costmodel.files import write_json
from costmodel.planner import replay
from costmodel.planner.graphs._exported import read_exported

RESULT = Path(__file__).with_name("planned.json")


def main() -> None:
    measured = json.loads(RESULT.read_text(encoding="utf-8"))["cases"]
    cases = [case | {"planned_s": planned_s(**case)} for case in measured]
    rows = [summary(cases, way, sms) for way in (DEFAULT, EAGER) for sms in sorted({c["sms"] for c in cases})]
    write_json(RESULT, rounded({"summary": rows, "cases": cases}, 8))
    print(markdown_table(list(rows[0]), [rounded(list(row.values()), 3) for row in rows]))


def planned_s(network: str, device: str, sms: int, **_: float) -> float:
    """The seconds of a network by the plan on so many SMs."""
    return replay(read_exported(exported(network), device, sms).graph).makespan_s


@cache
def exported(network: str) -> torch.export.ExportedProgram:
    """The program of a network without data."""
    found = JUDGED[network]
    with torch.device("meta"), torch.no_grad():
        return torch.export.export(found.module("meta"), tuple(found.inputs("meta")))


def summary(cases: list[dict[str, Any]], way: str, sms: int) -> dict[str, Any]:
    """How far the plan is off beside a way, over the networks on so many SMs."""
    asked = [case for case in cases if case["sms"] == sms]
    off = np.array([case["planned_s"] / case[way] - 1 for case in asked])
    return {
        "beside": way,
        "sms": sms,
        "networks": len(asked),
        "median_error": float(np.median(np.abs(off))),
        "mean_error": float(np.abs(off).mean()),
        "most_below": float(off.min()),
        "most_above": float(off.max()),
    }


if __name__ == "__main__":
    main()
