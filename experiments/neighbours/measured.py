"""What was measured of kernels beside each other, as arrays."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.records import Device, Workload

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Pairs of kernels; arrays are ``(pairs, 2)``, left and right, unless said otherwise.

    Attributes:
        device: What they ran on.
        kernels: Names.
        sms: SMs of their partitions.
        alone_s: What they take alone on these.
        cold_s: The same where nothing of theirs is in the L2 cache; NaN where not known.
        slowdowns: What they take beside each other over that.
        whole_s: What they take alone on the whole device.
        sizes_bytes: What they read and write, each byte once.
        requested_bytes: What their threads read and write, as often as they do; NaN where not known.
        flops: What they compute; NaN where not known.
        again: ``(repeated, 2, 2)`` slowdowns of pairs that were measured twice: visit, side.
    """

    device: Device
    kernels: NDArray[Any]
    sms: NDArray[Any]
    alone_s: Array
    cold_s: Array
    slowdowns: Array
    whole_s: Array
    sizes_bytes: Array
    requested_bytes: Array
    flops: Array
    again: Array

    def take(self, rows: NDArray[Any]) -> "Measured":
        """Some of the pairs; those that were measured twice stay."""
        of_pairs = {
            each.name: getattr(self, each.name)[rows]
            for each in fields(self)
            if each.name not in ("device", "again")
        }
        return replace(self, **of_pairs)


def read(folder: Path) -> Measured:
    """What was measured of pairs whose kernels ran on the whole device, too."""
    about, *_ = lines(folder / "about.jsonl")
    kernels = {row["kernel"]: row for row in lines(folder / "kernels.jsonl")}
    whole: dict[str, list[float]] = {}
    for row in lines(folder / "whole.jsonl"):
        whole.setdefault(row["kernel"], []).extend(row["latency_s"])
    pairs = [row for row in lines(folder / "pairs.jsonl") if set(row["kernels"]) <= set(whole)]
    first = {key(row): row for row in pairs if row["visit"] == 0}
    rows = list(first.values())
    twice = [
        [slowdowns(first[key(row)]), slowdowns(row)] for row in pairs if row["visit"] and key(row) in first
    ]
    names, sms = np.array([row["kernels"] for row in rows]), np.array([row["sms"] for row in rows])
    alone_s = np.array([np.median(row["alone_s"], axis=1) for row in rows])

    def of_kernels(value: Callable[[str], float]) -> Array:
        each = {name: value(name) for name in np.unique(names)}
        return np.vectorize(each.__getitem__, otypes=[np.float64])(names)

    return Measured(
        device=msgspec.convert(about["device"], Device),
        kernels=names,
        sms=sms,
        alone_s=alone_s,
        cold_s=cold(lines(folder / "cold.jsonl"), names, sms, alone_s),
        slowdowns=np.array([slowdowns(row) for row in rows]),
        whole_s=of_kernels(lambda name: float(np.median(whole[name]))),
        sizes_bytes=of_kernels(lambda name: moved_bytes(kernels[name])),
        requested_bytes=of_kernels(lambda name: requested_bytes(kernels[name])),
        flops=of_kernels(lambda name: flops(kernels[name])),
        again=np.array(twice).reshape(-1, 2, 2),
    )


def cold(rows: Sequence[Mapping[str, Any]], names: NDArray[Any], sms: NDArray[Any], alone_s: Array) -> Array:
    """``(pairs, 2)`` what kernels take alone behind something else in the cache, NaN where not known."""
    known = {(row["kernel"], *row["sms"], row["side"]): float(np.median(row["latency_s"])) for row in rows}
    found = np.full(alone_s.shape, np.nan)
    for pair, side in np.ndindex(*alone_s.shape):
        found[pair, side] = known.get((names[pair, side], *sms[pair], side), np.nan)
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    """Rows of JSON lines, or of the same file compressed."""
    text = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return *row["kernels"], *row["sms"]


def slowdowns(row: Mapping[str, Any]) -> Array:
    """``(2,)`` what each takes beside the other over what it takes alone, by medians of the rounds."""
    return np.asarray(np.median(row["beside_s"], axis=1) / np.median(row["alone_s"], axis=1))


def moved_bytes(kernel: Mapping[str, Any]) -> int:
    """What a kernel reads and writes, each byte once: of a table no more than what it looks up."""
    launches = kernel["candidate"].get("launches", ())
    of_data = sum(launch.get("device_bytes", 0) for launch in launches)
    of_threads = sum(
        launch.get("global_load_bytes", 0) + launch.get("global_store_bytes", 0) for launch in launches
    )
    arguments = int(kernel["argument_bytes"])
    return min(arguments, of_data or of_threads or arguments)


def requested_bytes(kernel: Mapping[str, Any]) -> float:
    """What the threads of a kernel read and write in the device's memory, as often as they do."""
    launches = kernel["candidate"].get("launches", ())
    return (
        sum(launch.get("global_load_bytes", 0) + launch.get("global_store_bytes", 0) for launch in launches)
        or np.nan
    )


def flops(kernel: Mapping[str, Any]) -> float:
    """What a kernel computes: by its launches, or by its operator."""
    workload = kernel["candidate"].get("workload")
    of_operator = msgspec.convert(workload, Workload).flops if workload else 0
    launches = kernel["candidate"].get("launches", ())
    return sum(launch.get("flops", 0) for launch in launches) or of_operator or np.nan
