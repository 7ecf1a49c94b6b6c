"""Fake files of other programs: a T4 file, a table with its column map, a MetaSchedule database."""

import csv
import io
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

PLATFORM_TOML = """
device = "RTX 3090"
sms = 82
isolation = "whole"
workload = "suite.gemm-x4096"
[software]
driver = "580.1"
"""
COLUMN_MAP = """
workload = { column = "kernel", values = { "gemm" = "suite.gemm-x4096" } }
device = { column = "gpu", values = { "ampere" = "RTX 3090" } }
sms = { column = "sms" }
isolation = { column = "how" }
outcome = { column = "status", values = { "good" = "ok", "bad" = "compile_error" } }
measured_at = { column = "when" }
[parameters]
block = "block_x"
order = { column = "layout", type = "text" }
tile = { column = "tile", type = "factors" }
[latency]
columns = ["run_1", "run_2"]
unit = "us"
"""
HEADER = ["kernel", "gpu", "sms", "how", "status", "when", "block_x", "layout", "tile", "run_1", "run_2"]
TIME = "2023-01-29 05:49:35+02:00"


def fake_t4() -> dict[str, Any]:
    """Six results, one of each invalidity, as Kernel Tuner writes them."""
    kinds = ("correct", "compile", "runtime", "timeout", "correctness", "constraints")
    results = [
        {
            "timestamp": TIME,
            "configuration": {"block": 16 * (i + 1), "layout": "row", "tile": [4, i + 1]},
            "times": {"compilation": 100.0, "runtimes": [1.0, 1.5, 2.0] if kind == "correct" else []},
            "invalidity": kind,
            "correctness": 0 if kind == "correctness" else 1,
            "measurements": [{"name": "time", "value": 1.5, "unit": "ms"}, {"name": "GFLOP/s", "value": 9.0}],
            "objectives": ["GFLOP/s"],
        }
        for i, kind in enumerate(kinds)
    ]
    return {"results": results, "schema_version": "1.0.0"}


def fake_rows() -> list[dict[str, Any]]:
    """Three rows that are ok, one with one repeat, and a failure."""
    shared = {"kernel": "gemm", "gpu": "ampere", "sms": 82, "how": "whole", "status": "good", "when": TIME}
    rows = [
        {**shared, "block_x": 16 * i, "layout": "row", "tile": f"4x{i}", "run_1": 10.0 * i, "run_2": 11.0 * i}
        for i in (1, 2, 3)
    ]
    rows[2]["run_2"] = ""
    failed = {**rows[0], "status": "bad", "block_x": 1024, "run_1": "", "run_2": ""}
    return [*rows, failed]


def csv_text(rows: list[dict[str, Any]]) -> str:
    """The rows as CSV with their header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADER)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def fake_trace(tile: list[int] | None = None, vector: int = 1) -> list[Any]:
    """A trace that tiles one loop and picks the width of a load, with a postprocessing instruction."""
    instructions = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v3", "v4"]],
        ["CacheRead", ["b0", ["b0"]], [0, "shared"], ["b5"]],
        ["SampleCategorical", [], [[1, 2, 4], [0.3, 0.3, 0.4]], ["v6"]],
        ["Annotate", ["b5", "v6"], ["meta_schedule.cooperative_fetch"], []],
        ["EnterPostproc", [], [], []],
        ["Unannotate", ["b5"], ["meta_schedule.cooperative_fetch"], []],
    ]
    return [instructions, [[2, tile or [16, 4]], [4, vector]]]


def fake_records() -> list[Any]:
    """Two records that are ok, one that failed by the marker and one without seconds."""
    target = {"kind": "cuda", "arch": "sm_86"}
    seconds = ([1e-5, 1.1e-5], [2e-5], [1e10], None)
    traces = (fake_trace(), fake_trace([8, 8], 2), fake_trace([4, 16]), fake_trace([2, 32]))
    return [
        [i % 2, [trace, secs, target, [["TENSOR", "float32", [64]]]]]
        for i, (trace, secs) in enumerate(zip(traces, seconds, strict=True))
    ]


def write_database(folder: Path, records: list[Any] | bytes) -> Path:
    """Write a database of two programs that nobody can decode, and give the path of the records."""
    folder.mkdir(exist_ok=True)
    programs = [[f"{i}4328089659445662024", b64encode(b"program %d" % i).decode()] for i in (1, 2)]
    (folder / "database_workload.json").write_bytes(json_lines(programs))
    path = folder / "database_tuning_record.json"
    path.write_bytes(records if isinstance(records, bytes) else json_lines(records))
    return path


def json_lines(rows: list[Any]) -> bytes:
    """A JSON document a line."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
