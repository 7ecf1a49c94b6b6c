"""What the searches found, in one file that is written after each of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from searches import Case

from costmodel.files import write_whole

Row = dict[str, Any]
Found = dict[str, Any]
TRACE = "trace"


class Results:
    """Rows, one a case, each with what its searches found.

    Args:
        file: Where they are kept, with the traces of the kernels.
        resumed: File of an earlier run that they begin with.
    """

    def __init__(self, file: Path, resumed: Path | None = None) -> None:
        self._file = file
        self.rows: list[Row] = json.loads(resumed.read_text()) if resumed else []

    def has(self, case: Case, name: str) -> bool:
        """Whether a search was made."""
        return any(name in row["searches"] for row in self.rows if _is_of(row, case))

    def add(self, case: Case, name: str, found: Found) -> None:
        """Keep what a search found."""
        row = next((row for row in self.rows if _is_of(row, case)), None)
        if row is None:
            row = {"workload": case.workload, "sms": case.sms, "seed": case.seed, "searches": {}}
            self.rows.append(row)
        row["searches"][name] = found
        self._save()

    def groups(self) -> list[tuple[str, int]]:
        """Workload and SMs of those rows that were searched since they were last compared side by side."""
        pairs = {
            (row["workload"], row["sms"]): None
            for row in self.rows
            if any("latency_s" not in step for step in _improvements(row))
        }
        return list(pairs)

    def steps(self, workload: str, sms: int) -> list[Mapping[str, Any]]:
        """Improvements of all searches of a workload on so many SMs."""
        return [step for row in self._of(workload, sms) for step in _improvements(row)]

    def judge(self, workload: str, sms: int, latencies: list[tuple[float, float] | None]) -> None:
        """Keep what ``steps`` took side by side; kernels that failed there are dropped."""
        steps = iter(latencies)
        for row in self._of(workload, sms):
            for found in row["searches"].values():
                measured = [(step, next(steps)) for step in found["improvements"]]
                found["improvements"] = [
                    {**step, "latency_s": pair[0], "repeat_s": pair[1]} for step, pair in measured if pair
                ]
        self._save()

    def judged(self) -> list[Row]:
        """The rows whose searches were compared side by side, without traces."""
        ready = [row for row in self.rows if all("latency_s" in step for step in _improvements(row))]
        return [{**row, "searches": {n: _bare(f) for n, f in row["searches"].items()}} for row in ready]

    def _of(self, workload: str, sms: int) -> list[Row]:
        return [row for row in self.rows if (row["workload"], row["sms"]) == (workload, sms)]

    def _save(self) -> None:
        write_whole(self._file, json.dumps(self.rows).encode())


def _is_of(row: Row, case: Case) -> bool:
    return (row["workload"], row["sms"], row["seed"]) == (case.workload, case.sms, case.seed)


def _improvements(row: Row) -> list[Mapping[str, Any]]:
    return [step for found in row["searches"].values() for step in found["improvements"]]


def _bare(found: Found) -> Found:
    steps = [{key: step[key] for key in step if key != TRACE} for step in found["improvements"]]
    return {**found, "improvements": steps}
