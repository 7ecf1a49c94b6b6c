"""Tables of AIConfigurator: how long calls of TensorRT-LLM, vLLM and SGLang take on ten GPUs.

The package ``aiconfigurator-core`` (NVIDIA, Apache-2.0; nothing of it is part of costmodel) holds Parquet
files ``systems/data/GPU/OPERATION/FRAMEWORK/VERSION/TABLE_perf.parquet``: sizes, types, the kernel's name as
the framework has it, and the latency of a call in milliseconds. Source: version 0.12.0, its tables and the
``collection_meta.yaml`` beside them, in which its authors say which rows they found wrong, and how.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.dataset.sources._base import InputFile, ReadOptions, add_software, find_named_device
from costmodel.dataset.sources._entry import EntryError, to_seconds
from costmodel.dataset.sources._source import Entry, FileContents, Origin
from costmodel.errors import CostModelError
from costmodel.reading import refusing
from costmodel.records._candidate import Candidate, Config, Decision, KernelLaunch
from costmodel.records._library_calls import CALL_KINDS, CallKind, CallWork, find_format
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

PACKAGE = "aiconfigurator_core"
SUITE = "aiconfigurator"
_SUFFIX = "_perf.parquet"
_COLUMNS = {"framework", "version", "device", "op_name", "kernel_source", "latency"}
_GPU_FOLDERS = 3  # of operation, framework and version below that of a GPU

# The authors measured again what takes over three times as long as both of its neighbours in a sweep.
_SPIKE = 3.0
# Medians of two frameworks' products of one type differ by 1.7 at most, where the times of one do not hold
# what is done once for a model (packing of weights) or on the host; with these it is 3 to 23.
_APART = 2.5
_LEAST_SHARED = 20  # shapes that make a median
# Products that would need more than the peak at the highest clock.
_ABOVE_PEAK = 1.1
# Halving the width of numbers doubles the rate; of four bits some GPUs compute three times as many.
_FOUR_BITS, _RATE_OF_FOUR_BITS = 4, 6.0
SPIKE = (
    "a call must not take over three times as long as the same call with the next smaller and larger sizes"
)
APART = "products of one framework must not take over 2.5 times as long in the median as those of others"
IMPOSSIBLE = "a call must not compute faster than the device can at its highest clock"


def find_tables(
    tables: Sequence[str] = (), gpus: Sequence[str] = (), folder: Path | None = None
) -> list[Path]:
    """Find tables of the installed package.

    Args:
        tables: Names of tables, such as ``gemm``; all that can be read if empty.
        gpus: Names of GPUs as the package has them, such as ``h100_sxm``; all if empty.
        folder: Folder of the package. Default: where it is installed.

    Raises:
        CostModelError: The package is not installed, or there is no such table or GPU.
    """
    root = (folder or _installed()) / "systems" / "data"
    known_gpus = sorted(each.name for each in root.glob("*") if each.is_dir())
    for what, named, known in (("table", tables, list(CALL_KINDS)), ("GPU", gpus, known_gpus)):
        if missing := [name for name in named if name not in known]:
            raise CostModelError(
                f"Each {what} must be one of {', '.join(known) or 'none, as there is no data'}, but got "
                f"{', '.join(missing)}."
            )
    found = [
        path
        for gpu in gpus or known_gpus
        for table in tables or CALL_KINDS
        for path in sorted((root / gpu).glob(f"*/*/*/{table}{_SUFFIX}"))
    ]
    if not found:
        raise CostModelError(f"{root} must hold tables of these names, but has none. Install it again.")
    return found


def _installed() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise CostModelError(
            "The tables of AIConfigurator must be installed to be read, but are not. Run `pip install "
            "--no-deps aiconfigurator-core==0.12.0` (82 MB, Apache-2.0)."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def is_call_table(path: Path) -> bool:
    """Tell whether a Parquet file is such a table, by its columns."""
    try:
        return set(pq.read_schema(path).names) >= _COLUMNS
    except (OSError, pa.ArrowException):
        return False


def read_call_table(file: InputFile, options: ReadOptions) -> FileContents:
    """Read a table. Tables of other frameworks beside it tell which of its rows cannot be believed.

    Raises:
        CostModelError: The file is damaged, or calls of its kind are not known.
    """
    calls = CallTable.read(file.path).part(options.share)
    return FileContents.of(file.path, _entries(file.path, calls))


class CallTable:
    """Calls of one kind on one GPU by one framework, as measured.

    Attributes:
        name: Name of the table.
        kind: What its calls are.
        rows: Its columns, as they are, with ``reason``: why a row cannot be believed, or empty.
    """

    def __init__(self, name: str, rows: pd.DataFrame) -> None:
        self.name, self.kind, self.rows = name, _kind(name), rows

    @classmethod
    def read(cls, path: Path) -> "CallTable":
        """Read a table, and say what of it cannot be believed.

        Raises:
            CostModelError: The file is damaged, or calls of its kind are not known.
        """
        name = path.name.removesuffix(_SUFFIX)
        table = cls(name, _read(path, _kind(name)))
        gpu = path.parents[_GPU_FOLDERS] if len(path.parents) > _GPU_FOLDERS else path.parent
        peers = [each for each in sorted(gpu.glob(f"*/*/*/{path.name}")) if each != path]
        others = [_read(peer, table.kind) for peer in peers] if name == "gemm" else []
        table.rows["reason"] = _doubt(table, others)
        return table

    def part(self, share: float) -> "CallTable":
        """Return the calls of a share of the shapes: the same ones on every GPU and of every framework."""
        sizes = pd.util.hash_pandas_object(self.rows[list(self.sizes)].astype("int64"), index=False)
        kept = sizes.to_numpy() / 2.0**64 < share
        return CallTable(self.name, self.rows[kept].reset_index(drop=True))

    @property
    def sizes(self) -> tuple[str, ...]:
        """Columns of sizes that it has."""
        return tuple(name for name in self.kind.sizes if name in self.rows)

    @property
    def latency_s(self) -> FloatArray:
        """``(n,)`` seconds."""
        return np.asarray(self.rows["latency"], dtype=np.float64) / 1e3

    def work(self) -> CallWork:
        """What each call does."""
        sizes = {name: self.rows[name].to_numpy(np.float64) for name in self.sizes}
        n = len(self.rows)
        found = {name: np.zeros(n) for name in CallWork.__dataclass_fields__}
        for types, positions in self.rows.groupby(list(self.kind.types)).indices.items():
            names = tuple(map(str, types)) if isinstance(types, tuple) else (str(types),)
            part = self.kind.work({name: each[positions] for name, each in sizes.items()}, names)
            for name, column in found.items():
                column[positions] = getattr(part, name)
        return CallWork(**found)


def _kind(name: str) -> CallKind:
    if name not in CALL_KINDS:
        raise CostModelError(
            f"A table of AIConfigurator must be one of {', '.join(CALL_KINDS)}, but got {name}: what other "
            "calls do is not known here. Give `--columns map.toml` to read it as a plain table."
        )
    return CALL_KINDS[name]


def _read(path: Path, kind: CallKind) -> pd.DataFrame:
    wanted = [*_COLUMNS, *kind.types, *kind.sizes]
    with refusing(path, "a table of AIConfigurator", "Install the package again."):
        there = set(pq.read_schema(path).names)
        if missing := {*_COLUMNS, *kind.types} - there:
            raise CostModelError(f"{path} must have the columns {', '.join(sorted(missing))}, but has not.")
        table = pq.read_table(path, columns=[name for name in wanted if name in there])
        return pd.DataFrame(table.to_pandas())


def _doubt(table: CallTable, others: Sequence[pd.DataFrame]) -> NDArray[np.object_]:
    reasons = np.full(len(table.rows), "", dtype=object)
    reasons[_spikes(table)] = SPIKE
    reasons[_impossible(table)] = IMPOSSIBLE
    reasons[_apart(table, others)] = APART
    return reasons


def _spikes(table: CallTable) -> NDArray[np.bool_]:
    """Rows far above both neighbours along the first size, which the tables sweep most finely."""
    first, *rest = table.sizes
    series = ["kernel_source", *table.kind.types, *rest]
    ordered = table.rows.sort_values([*series, first])
    latency = ordered["latency"]
    by_series = latency.groupby([ordered[name] for name in series], sort=False)
    neighbours = pd.concat([by_series.shift(1), by_series.shift(-1)], axis=1)
    is_spike = neighbours.notna().all(axis=1) & (latency > _SPIKE * neighbours.max(axis=1))
    return is_spike.reindex(table.rows.index).to_numpy()


def _impossible(table: CallTable) -> NDArray[np.bool_]:
    device = find_named_device(str(table.rows["device"].iloc[0])) if len(table.rows) else None
    if device is None or not device.tensor_flops_per_sm_clock:
        return np.zeros(len(table.rows), dtype=bool)
    rate = device.tensor_flops_per_sm_clock * device.sms * device.clock_mhz * 1e6
    bits = table.rows[table.kind.types[0]].map(lambda name: find_format(name).multiplies).to_numpy(np.float64)
    times = np.where(bits == _FOUR_BITS, _RATE_OF_FOUR_BITS, 16 / bits)
    return np.asarray(table.work().flops > _ABOVE_PEAK * rate * times * table.latency_s)


def _apart(table: CallTable, others: Sequence[pd.DataFrame]) -> NDArray[np.bool_]:
    """Rows of types of which the median product takes far longer than with other frameworks."""
    keys = [*table.kind.types, *table.sizes]
    if not others:
        return np.zeros(len(table.rows), dtype=bool)
    best = pd.concat(others).groupby(keys, as_index=False)["latency"].min()
    joined = table.rows[[*keys, "latency"]].merge(best, on=keys, how="left", suffixes=("", "_best"))
    ratio = (joined["latency"] / joined["latency_best"]).groupby([joined[t] for t in table.kind.types])
    median, shared = ratio.transform("median"), ratio.transform("count")
    return ((median > _APART) & (shared >= _LEAST_SHARED)).to_numpy()


def _entries(path: Path, table: CallTable) -> Iterator[Entry]:
    origin, work = Origin.of(path), table.work()
    platforms: dict[tuple[str, str, str], Platform] = {}
    for i, row in enumerate(table.rows.to_dict("records")):
        if row["reason"]:
            yield origin.reject(row["reason"], row, i + 1)
            continue
        try:
            key = str(row["device"]), str(row["framework"]), str(row["version"])
            if key not in platforms:
                platforms[key] = _platform(*key, origin)
            yield _measurement(table, row, _launch(work, i), platforms[key])
        except EntryError as error:
            yield origin.reject(str(error), row, i + 1)


def _platform(device: str, framework: str, version: str, origin: Origin) -> Platform:
    found = find_named_device(device)
    whole = Platform(found, "whole", found.sms, found.sms)
    return add_software(whole, {framework.lower(): version, "aiconfigurator_table": origin.text})


def _measurement(
    table: CallTable, row: Mapping[Any, Any], launch: KernelLaunch, platform: Platform
) -> Measurement:
    """Make the measurement of a row.

    Raises:
        EntryError: Its latency is none.
    """
    names = [re.sub(r"\W+", "_", str(row[name]), flags=re.ASCII) for name in table.kind.types]
    # A size of 0 says that there is none, such as no window.
    dims = {table.kind.sizes[name]: int(row[name]) for name in table.sizes if int(row[name]) > 0}
    decisions: dict[str, Decision] = {
        "framework": str(row["framework"]).lower(),
        "version": str(row["version"]),
        "kernel": str(row["kernel_source"]),
    }
    return Measurement(
        candidate=Candidate(
            Workload(".".join([SUITE, table.name, *names]), dims, ""), SUITE, Config(decisions), (launch,)
        ),
        platform=platform,
        outcome=Outcome.OK,
        latencies_s=(to_seconds(float(row["latency"]), 1e3, "latencies"),),
        runs_per_repeat=1,
        measured_at="",
    )


def _launch(work: CallWork, i: int) -> KernelLaunch:
    """What is known of a call without its kernels."""
    flops = int(work.flops[i])
    return KernelLaunch(
        blocks=0,
        threads_per_block=0,
        flops=flops,
        tensor_flops=flops,
        global_load_bytes=int(work.load_bytes[i]),
        global_store_bytes=int(work.store_bytes[i]),
    )
