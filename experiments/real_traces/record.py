"""Measures networks as they are and changed, and traces each with PyTorch's profiler: see README.md.

Runs on a machine with a GPU and PyTorch, without a network, or on a CPU with tiny sizes as a rehearsal.
"""

import argparse
import gc
import json
import platform
import subprocess
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import last_networks
import later_networks
import latest_networks
import networks
import torch
import unseen_networks
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from variants import Partitions, Runner, Step, Variant, finish, on_stream, variants_of

LEAST_RUNS = 20
SETS = {
    "first": networks,
    "unseen": unseen_networks,
    "later": later_networks,
    "latest": latest_networks,
    "last": last_networks,
}
# What is kept of an event beside its name, place and times: the planner needs some, others explain kernels.
KEPT = (
    "correlation",
    "device",
    "inDevice",
    "stream",
    "context",
    "graph id",
    "graph node id",
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "bytes",
    "cuda_sync_kind",
    "wait_on_stream",
    "wait_on_cuda_event_record_corr_id",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
)


@dataclass
class Recording:
    """Rows go into ``measurements.json``, traces into ``traces.zip``, as soon as they are there.

    Attributes:
        folder: Where to.
        about: What it was made on.
        rows: One for each variant of each network.
    """

    folder: Path
    about: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def save(self) -> None:
        """Write the rows."""
        part = self.folder / "measurements.json.part"
        part.write_text(json.dumps({"about": self.about, "rows": self.rows}, indent=1) + "\n")
        part.replace(self.folder / "measurements.json")

    def add_trace(self, name: str, path: Path) -> None:
        """Move a trace into the archive, without what nobody asks for."""
        content = json.dumps(slim(json.loads(path.read_text())), separators=(",", ":"))
        with zipfile.ZipFile(self.folder / "traces.zip", "a", zipfile.ZIP_BZIP2) as archive:
            archive.writestr(name, content)
        path.unlink()


def main() -> None:
    args = parse()
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.time_limit
    partitions = Partitions(args.device)
    recording = Recording(args.out, about(args.device))
    chosen = args.networks(tiny=args.device == "cpu")
    runners = {name: Runner(chosen[name], args.device, partitions) for name in args.only or chosen}
    gc.disable()
    # All times before the first trace: what a profiler leaves behind may slow launches down.
    for name, runner in runners.items():
        recording.rows += measure_all(name, runner, args.runs, end)
        recording.save()
    for row in sorted(recording.rows, key=lambda row: row["sms"] > 0):
        # Predictions begin on the whole device; only of the first networks are others looked at, too.
        if not row["error"] and (args.set == "first" or not row["sms"]):
            trace_all(row, runners[row["network"]], recording, end, also_with_shapes=args.set != "unseen")
            recording.save()
    recording.about["sms_granted"] = partitions.granted
    recording.about["seconds"] = args.time_limit - (end - time.monotonic())
    recording.save()
    print(table(recording.rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--time-limit", type=float, default=150.0, metavar="SECONDS")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: tiny sizes")
    parser.add_argument("--runs", type=int, default=LEAST_RUNS, help="timed runs of a variant, at least")
    parser.add_argument("--set", choices=list(SETS), default="first", help="whose module says what they are")
    parser.add_argument("--only", nargs="+", metavar="NETWORK")
    args = parser.parse_args(argv)
    args.networks = SETS[args.set].networks
    if unknown := set(args.only or ()) - set(args.networks(tiny=True)):
        parser.error(
            f"--only must name networks of {', '.join(args.networks(tiny=True))}, but names {unknown}"
        )
    return args


def about(device: str) -> dict[str, Any]:
    """What is measured on, with which versions."""
    found: dict[str, Any] = {"device": platform.processor() or "cpu", "python": platform.python_version()}
    found["torch"] = torch.__version__
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "sms": properties.multi_processor_count}
        found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["driver"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return found


def measure_all(name: str, runner: Runner, runs: int, end: float) -> list[dict[str, Any]]:
    """A row for each variant: its times, twice, others between, or why it has none."""
    rows, steps = [], {}
    for variant in variants_of(runner.network):
        row = {"network": name, "variant": variant.name, **variant.as_dict(), "error": ""}
        row |= {"trains": bool(runner.network.optimizer), "wall_s": [], "event_s": []}
        rows.append(row)
        try:
            steps[variant.name] = prepared(runner, variant, end)
        except Exception as error:  # noqa: BLE001 (the others go on)
            row["error"] = why(error)
    for _ in range(2):
        for row in rows:
            if row["variant"] in steps and not row["error"]:
                add_times(row, *steps[row["variant"]], runs)
    return rows


def prepared(runner: Runner, variant: Variant, end: float) -> tuple[Step, Any]:
    """The step of a variant and its stream.

    Raises:
        TimeoutError: No time is left.
    """
    if time.monotonic() > end:
        raise TimeoutError("no time was left")
    return runner.prepare(variant)


def add_times(row: dict[str, Any], step: Step, stream: Any, runs: int) -> None:
    """Append the median times of a step, by the host's clock and between CUDA events."""
    try:
        with on_stream(stream):
            walls = [wall_s(step, stream) for _ in range(runs + 3)][3:]
            events = [event_s(step, stream) for _ in range(runs)] if stream is not None else []
    except Exception as error:  # noqa: BLE001 (the others go on)
        row["error"] = why(error)
        return
    row["wall_s"].append(median(walls))
    row["event_s"].append(median(events) if events else median(walls))


def wall_s(step: Step, stream: Any) -> float:
    """Seconds from the call of a step until its stream is done."""
    began = time.perf_counter()
    step()
    finish(stream)
    return time.perf_counter() - began


def event_s(step: Step, stream: Any) -> float:
    """Seconds between events of the stream before and after a step."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record(stream)
    step()
    last.record(stream)
    last.synchronize()
    return first.elapsed_time(last) * 1e-3


def trace_all(
    row: dict[str, Any], runner: Runner, recording: Recording, end: float, *, also_with_shapes: bool
) -> None:
    """Trace a variant; a base of others perhaps also with shapes, and without calls of the CPU."""
    variant = Variant(**{key: row[key] for key in Variant.__dataclass_fields__})
    is_base = also_with_shapes and variant.name in ("eager", "foreach")
    row |= {"traced_wall_s": {}, "trace_error": ""}
    try:
        step, stream = prepared(runner, variant, end)
        for kind, options in traces(stream is not None, is_base).items():
            path = recording.folder / "trace.part.json"
            with on_stream(stream):
                row["traced_wall_s"][kind] = trace(step, stream, path, options)
            recording.add_trace(f"{row['network']}/{row['variant']}{kind}.json", path)
    except Exception as error:  # noqa: BLE001 (the others go on)
        row["trace_error"] = why(error)


def traces(is_cuda: bool, is_base: bool) -> dict[str, dict[str, Any]]:
    """Options of the profiler by what is appended to a trace's name."""
    gpu = [ProfilerActivity.CUDA] if is_cuda else []
    both = [ProfilerActivity.CPU, *gpu]
    found: dict[str, dict[str, Any]] = {"": {"activities": both}}
    if is_base:
        found["+shapes"] = {"activities": both, "record_shapes": True}
        if gpu:
            found["+device"] = {"activities": gpu}
    return found


def trace(step: Step, stream: Any, path: Path, options: dict[str, Any]) -> float:
    """Write the trace of one iteration, after two that are not kept; seconds of its wall time."""
    found = 0.0
    extra = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    kept = schedule(wait=0, warmup=2, active=1, repeat=1)
    with profile(**options, schedule=kept, experimental_config=extra) as profiler:
        for _ in range(3):
            with record_function("iteration"):
                found = wall_s(step, stream)
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return found


def slim(found: dict[str, Any]) -> dict[str, Any]:
    """A trace without names of tracks, arrows from launches to kernels, and fields that are not ``KEPT``."""
    spans = [event for event in found["traceEvents"] if event["ph"] == "X" or event.get("cat") == "fwdbwd"]
    for event in spans:
        event["args"] = {key: value for key, value in event.get("args", {}).items() if key in KEPT}
    return {"deviceProperties": found.get("deviceProperties", []), "traceEvents": spans}


def why(error: Exception) -> str:
    """The first line of an error, shortened."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each variant."""
    lines = [f"{'network':18}{'variant':24}{'wall us':>10}{'A/A %':>7}{'event us':>10}{'traced us':>10}"]
    for row in rows:
        lines.append(f"{row['network']:18}{row['variant']:24}" + (row["error"] or _times(row)))
    return "\n".join(lines)


def _times(row: dict[str, Any]) -> str:
    first, second = row["wall_s"]
    traced = row.get("traced_wall_s", {}).get("", float("nan"))
    return (
        f"{first * 1e6:10,.1f}{100 * (second / first - 1):7.1f}{median(row['event_s']) * 1e6:10,.1f}"
        f"{traced * 1e6:10,.1f} {row.get('trace_error', '')}"
    )


if __name__ == "__main__":
    main()
