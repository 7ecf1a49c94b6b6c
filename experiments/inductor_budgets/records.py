"""Turn what ``collect.py`` and ``collect_kernels.py`` left in folders into records: records.py OUT FOLDER...

OUT gets ``measurements.jsonl``, of which ``costmodel dataset build`` makes the dataset, ``sources.parquet``
with the code of the elementwise and reduction kernels, and ``cold.parquet`` with what Inductor's own timer
said of some products, whose L2 is cold.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import ceil, frexp, inf, ldexp, prod
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.products import Kernel
from costmodel.records import Candidate, Config, Measurement, Outcome, Platform, RecordStore, Workload
from costmodel.records._device_table import find_device
from costmodel.records._measurement import KernelResources
from costmodel.records._platform import Device

REPEAT_S, MOST_RUNS, REPEATS = 600e-6, 40, 4  # as sweep.py times
SLOWEST = (
    100  # times as long as the best: what spills as much tells nothing more, and its times are all alike
)
SOFTWARE = {"torch": "2.11.0", "triton": "3.6.0"}
_PREFIX = re.compile(r"triton_[a-z]+_fused_?")
_NOT_DEFAULT = Kernel("triton")._asdict()


def main() -> None:
    out, *folders = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    sources: dict[tuple[str, str], dict[str, Any]] = {}
    cold: list[dict[str, Any]] = []
    seen: set[tuple[str, str]] = set()  # products that differ in gaps between rows alone are one
    with RecordStore(out / "measurements.jsonl") as store:
        for folder in folders:
            measured_at = (folder / "measured_at").read_text(encoding="utf-8").strip()
            for path in sorted(folder.rglob("*.jsonl")):
                for line in path.read_text(encoding="utf-8").splitlines():
                    found = json.loads(line)
                    if "call" in found:
                        product = product_workload(found["product"]).name, found["device"]
                        if product not in seen:
                            store.append(_new(store, of_product(found, measured_at)))
                            cold += cold_rows(found)
                        seen.add(product)
                    elif "source" in found:
                        store.append(_new(store, of_kernel(found, measured_at)))
                        row = source_row(found)
                        sources.setdefault((row["workload"], row["kind"]), row)
    pd.DataFrame(cold).to_parquet(out / "cold.parquet", compression="zstd", index=False)
    if sources:
        pd.DataFrame(sources.values()).to_parquet(out / "sources.parquet", compression="zstd", index=False)


def _new(store: RecordStore, measurements: Iterator[Measurement]) -> list[Measurement]:
    """Leave out what was measured before, as kernels whose code differs in what no record tells."""
    by_key = {each.key: each for each in measurements}
    return [each for key, each in by_key.items() if key not in store]


def of_product(found: Mapping[str, Any], measured_at: str) -> Iterator[Measurement]:
    """Records of a product's candidates on all parts, those that were timed twice with their repeats."""
    workload = product_workload(found["product"])
    most_s = SLOWEST * min(map(_least_s, found["candidates"]))
    for position, each in enumerate(found["candidates"]):
        if not each["kernel"] or (not each["error"] and _least_s(each) > most_s):
            continue
        known = {name: value for name, value in each["kernel"].items() if value != _NOT_DEFAULT.get(name)}
        config = {"position": position, "template": each["template"], **known, "programs": each["programs"]}
        candidate = Candidate(workload, "inductor-products", Config(config))
        yield from _measurements(candidate, found["device"], each, measured_at, ())


def _least_s(candidate: Mapping[str, Any]) -> float:
    """The least seconds on any part; infinite for what did not run."""
    return min((least for each in candidate["warm_s"].values() for least in each), default=inf)


def product_workload(product: Mapping[str, Any]) -> Workload:
    """A product by dtype, layout, epilogue and sizes."""
    parts = ("inductor", "product", product["dtype"], product["layout"], product["epilogue"])
    dims = {"b": product["batch"], "m": product["m"], "n": product["n"], "k": product["k"]}
    return Workload(".".join(filter(None, parts)), dims, "")


def cold_rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What Inductor's timer said of candidates, by their place in Inductor's list."""
    for position, each in enumerate(found["candidates"]):
        for sms, cold_s in each.get("cold_s", {}).items():
            known = {"workload": product_workload(found["product"]).name, "device": found["device"]}
            yield known | {"position": position, "sms": int(sms), "cold_s": _rounded(cold_s)}


def kernel_workload(found: Mapping[str, Any]) -> Workload:
    """A kernel by what it fuses, its sizes and a hash of its arguments; loops and held rows are one."""
    fused = re.sub(r"_\d+$", "", _PREFIX.sub("", found["name"], count=1)) or "none"
    digest = sha256(json.dumps(found["arguments"]).encode()).hexdigest()[:6]
    sizes = {name.rstrip("0123456789_"): size for name, size in found["size_hints"].items()}
    return Workload(f"inductor.fused.{fused[:90]}.h{digest}", sizes, "")


def of_kernel(found: Mapping[str, Any], measured_at: str) -> Iterator[Measurement]:
    """Records of a kernel's block sizes on all parts."""
    workload = kernel_workload(found)
    for each in found["candidates"]:
        config = {"kind": found["kind"], **each["blocks"], "warps": each["warps"], "stages": each["stages"]}
        candidate = Candidate(workload, "inductor-blocks", Config({**config, "origin": each["origin"]}))
        resources = ()
        if each.get("registers") is not None:
            resources = (KernelResources(each["registers"], 4 * (each["spills"] or 0)),)
        yield from _measurements(candidate, found["device"], each, measured_at, resources)


def source_row(found: Mapping[str, Any]) -> dict[str, Any]:
    """The code of a kernel, and where it was found."""
    names = ("kind", "network", "training", "source")
    elements = sum(prod(each[1]) for each in found["arguments"] if isinstance(each, list))
    row = {"workload": kernel_workload(found).name, **{name: found[name] for name in names}}
    return row | {"arguments": json.dumps(found["arguments"]), "elements": elements}


def _measurements(
    candidate: Candidate,
    device_name: str,
    found: Mapping[str, Any],
    measured_at: str,
    resources: tuple[KernelResources, ...],
) -> Iterator[Measurement]:
    device = find_device(device_name)
    error = found.get("error") or (
        "" if found.get("agrees", True) else "differs from Inductor's first config"
    )
    for sms, times in found["warm_s"].items() if not found.get("error") else [(device.sms, [])]:
        for visit in range(0, max(1, len(times)), REPEATS):
            latency_s = _rounded(min(times[visit : visit + REPEATS], default=0.0))
            ran = bool(latency_s) and not error
            outcome = Outcome.OK if ran else Outcome.WRONG_RESULT if latency_s else Outcome.LAUNCH_ERROR
            yield Measurement(
                candidate=candidate,
                platform=_platform(device, int(sms)),
                outcome=outcome,
                latencies_s=(latency_s,) if ran else (),
                runs_per_repeat=min(MOST_RUNS, ceil(REPEAT_S / latency_s)) if ran else 0,
                visit=visit // REPEATS,
                resources=resources,
                measured_at=measured_at,
                error="" if ran else error or "not timed",
            )


def _rounded(seconds: float) -> float:
    """Round to one of 2,048 steps between powers of two, which is well below the noise."""
    mantissa, exponent = frexp(seconds)
    return ldexp(round(mantissa * 4096) / 4096, exponent)


def _platform(device: Device, sms: int) -> Platform:
    isolation = "whole" if sms >= device.sms else "green_context"
    return Platform(device, isolation, sms, sms, SOFTWARE)


if __name__ == "__main__":
    main()
