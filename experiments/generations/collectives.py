"""Collectives between GPUs of a machine, as calls whose bytes go over the link and not to the memory."""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
from study import Rows

from costmodel.dataset.importers._aiconfigurator import PACKAGE
from costmodel.records._library_calls import CallWork

# 1e9 bytes a second in one direction, by datasheet: NVLink 3, 4 and 5, PCIe 4.0 and 5.0 with 16 lanes.
LINKS = {
    "NVIDIA A100-SXM4-80GB": 300.0,
    "NVIDIA H100 80GB HBM3": 450.0,
    "NVIDIA H200": 450.0,
    "NVIDIA B200": 900.0,
    "NVIDIA B300 SXM6 AC": 900.0,
    "NVIDIA GB200": 900.0,
    "NVIDIA GB300": 900.0,
    "NVIDIA L40S": 32.0,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 64.0,
}
COLLECTIVES = ("nccl", "custom_allreduce")
_SIZES = ("num_gpus", "message_size")
_BYTES = {"half": 2, "bfloat16": 2, "int8": 1}
_WARMED_BY_HOST = "eager"  # takes as long as Python needs to start it


def load_collectives(kind: str, each: int, seed: int = 0) -> Rows:
    """Load ``nccl`` or ``custom_allreduce``: medians over versions, at most ``each`` calls of a GPU."""
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations, f"{PACKAGE} must be installed"
    root = Path(next(iter(spec.submodule_search_locations)))
    files = sorted((root / "systems" / "data").glob(f"*/*/*/*/{kind}_perf.parquet"))
    raw = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    raw = raw[raw["device"].isin(LINKS) & ~raw["kernel_source"].str.contains(_WARMED_BY_HOST)]
    types = next(name for name in ("nccl_dtype", "allreduce_dtype") if name in raw)
    raw["group"] = raw["kernel_source"] + "|" + raw[types] + "|" + raw["op_name"]
    keys = ["device", "group", *_SIZES]
    rows = raw.groupby(keys, as_index=False)["latency"].median()
    rows = rows.assign(latency_s=rows["latency"] / 1e3, **_work(rows))
    drawn = rows.groupby("device").sample(frac=1, random_state=seed).groupby("device").head(each)
    return Rows.of(drawn.reset_index(drop=True), _SIZES, LINKS)


def _work(rows: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
    """Bytes that a ring moves over each link; nothing is computed."""
    gpus, elements = (rows[name].astype(float) for name in _SIZES)
    each = rows["group"].str.split("|").str[1].map(_BYTES)
    times = 1.0 + rows["group"].str.endswith("all_reduce")  # scattered, then gathered
    moved = times * (gpus - 1) / gpus * elements * each
    one = gpus * 0 + 1
    told = {"flops": one, "load_bytes": moved, "store_bytes": 0 * one}
    told |= {"rows": gpus, "columns": elements, "depth": one, "copies": one}
    assert told.keys() == CallWork.__dataclass_fields__.keys()
    return told
