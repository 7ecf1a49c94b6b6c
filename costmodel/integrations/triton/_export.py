"""Exports of tuning results: a dispatch table by SMs, and config files of vLLM and SGLang."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from costmodel.errors import CostModelError, did_you_mean
from costmodel.files import write_whole
from costmodel.integrations.triton._autotuner import Autotuner
from costmodel.integrations.triton._timings import current_timings, open_store
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Device
from costmodel.records._store import read_records
from costmodel.search._dispatch import DispatchTable, dispatch_ranges
from costmodel.search._objective import Objective, ObjectiveName
from costmodel.search._portfolio import best_portfolio
from costmodel.search._provenance import Provenance

# A store, or a kernel that has one.
Tuned = Autotuner | Path | str

# Who reads the files, see ``save_moe_configs``.
Framework = Literal["vllm", "sglang"]

# What each config of a fused-MoE kernel has. Others, such as SPLIT_K and AMD's waves_per_eu, are written too:
# the frameworks hand a config to their kernel as it is.
_MOE_PARAMETERS = (
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "num_warps",
    "num_stages",
)


def dispatch_table(
    tuned: Tuned, workload: str | None = None, *, device: str | None = None, kernels: int | None = None
) -> DispatchTable:
    """Return the config of a kernel to run for each SM budget, from the timings in a store.

    If there are several sources or versions of a kernel, the one timed last counts; so does the last driver,
    isolation and timer on each number of SMs, and the last timing of a config.

    Args:
        tuned: A store, or a kernel that has one.
        workload: Name of the kernel with its sizes, such as ``triton.matmul_fp16x3-m512-n512-k512``. Default:
            the only one in the store.
        device: Name of the device. Default: the only one in the store.
        kernels: Maximum number of different configs. A small number selects configs that were timed on
            several budgets. Default: the number of SM budgets.

    Raises:
        CostModelError: If the store cannot be read, does not contain this, contains several, or no selection
            of this many configs runs on all budgets.
    """
    path = _path_of(tuned)
    measured = _of_one([*read_records(path)], "workload", workload, lambda each: each.candidate.workload.name)
    measured = _of_one(measured, "device", device, lambda each: each.platform.device.name)
    measured = current_timings(measured)
    latest = {(each.candidate.candidate_id, each.platform.sms_granted): each for each in measured}
    candidates = {each.candidate.candidate_id: each.candidate for each in measured}
    sms = sorted({granted for _, granted in latest})
    latency_s = np.array(
        [
            [latest[each, granted].latency_s if (each, granted) in latest else np.nan for granted in sms]
            for each in candidates
        ]
    )
    ranges = best_portfolio(latency_s, Objective.make(ObjectiveName.MEAN, len(sms)), kernels or len(sms))
    listed, on = list(candidates.values()), _device_of(measured)
    return DispatchTable(
        workload=listed[0].workload,
        device=on,
        objective=ObjectiveName.MEAN.value,
        ranges=dispatch_ranges(listed, ranges, latency_s, sms, on.sms),
        provenance=Provenance(
            f"Triton's autotuner, kept in {Path(path).name}",
            {"trained_on": "nothing"},
            content_id(listed[0].space, on.name),
            0,
            len(candidates),
        ),
    )


def save_moe_configs(  # noqa: PLR0913 (settings, most with defaults)
    tuned: Tuned,
    folder: Path | str,
    kernel: str,
    *,
    dims: Mapping[str, str],
    dtype: str = "",
    block_shape: Sequence[int] = (),
    framework: Framework = "vllm",
    device: str | None = None,
    sms: int | None = None,
) -> list[Path]:
    """Write the best configs of a fused-MoE kernel as vLLM or SGLang reads them.

    There is one file for each number of experts and columns, named
    ``E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3.json``. For each M it contains the config with all its
    parameters. The timings that count are those of ``dispatch_table``: of the source timed last, and of each
    config the last.

    Args:
        tuned: A store, or a kernel that has one.
        folder: Output folder, created if missing.
        kernel: Kind of its workloads, such as ``triton.fused_moe_bf16x3``.
        dims: Letters of ``M``, ``E`` and ``N`` in the names of workloads.
        dtype: The framework's name for quantised weights, such as ``fp8_w8a8``. Default: none.
        block_shape: Rows and columns of the blocks of quantised weights that share a scale, such as
            ``(128, 128)``. Default: none.
        framework: ``vllm`` writes the version of Triton into the file, ``sglang`` into the name of its folder
            below ``folder``, such as ``triton_3_6_0``.
        device: Name of the device. Default: the only one in the store.
        sms: Number of SMs available to the kernel. Default: the whole device.

    Returns:
        Paths of the files.

    Raises:
        CostModelError: If the store cannot be read or has no such timings, several kernels have the same M, E
            and N, or the configs are of another kernel.
    """
    if block_shape and (len(block_shape) != 2 or min(block_shape) < 1):
        raise CostModelError(f"block_shape must be two positive numbers, but got {block_shape}.")
    measured = _of_one(
        [*read_records(_path_of(tuned))], "kernel", kernel, lambda each: each.candidate.workload.kind
    )
    measured = current_timings(_of_one(measured, "device", device, lambda each: each.platform.device.name))
    on = _device_of(measured)
    ran = [each for each in measured if each.latencies_s and each.platform.sms_granted == (sms or on.sms)]
    if not ran:
        raise CostModelError(
            f"The store must have timings of {kernel} on {sms or on.sms} SMs, but has none of the source "
            "that was timed last. Tune it there."
        )
    version = ran[-1].platform.software.get("triton", "")
    written = []
    for (e, n), by_m in _best_by_size(ran, dims).items():
        name = f"E={e},N={n},device_name={_moe_device(on.name, framework)}"
        path = Path(folder) / (name + _quantisation(dtype, block_shape, framework) + ".json")
        configs: dict[str, object] = {str(m): _moe_config(by_m[m]) for m in sorted(by_m)}
        if version and framework == "sglang":
            path = path.parent / f"triton_{version.replace('.', '_')}" / Path(path).name
        elif version:
            configs = {"triton_version": version, **configs}
        write_whole(path, msgspec.json.format(msgspec.json.encode(configs), indent=4) + b"\n")
        written.append(path)
    return written


def _best_by_size(
    ran: Sequence[Measurement], dims: Mapping[str, str]
) -> dict[tuple[int, int], dict[int, Measurement]]:
    """Return the fastest timings by E and N, and then by M."""
    best: dict[tuple[int, int], dict[int, Measurement]] = defaultdict(dict)
    for each in ran:
        m, e, n = (_size(each, dims, name) for name in ("M", "E", "N"))
        known = best[e, n].setdefault(m, each)
        if known.candidate.workload != each.candidate.workload:
            raise CostModelError(
                f"One kernel must be tuned for M={m}, E={e}, N={n}, but the store has "
                f"{known.candidate.workload.name} and {each.candidate.workload.name}: the files tell no "
                "other sizes apart. Keep them in stores of their own."
            )
        if each.latency_s < known.latency_s:
            best[e, n][m] = each
    return best


def _moe_device(name: str, framework: Framework) -> str:
    """Return the name of a device in file names; vLLM reads one file for all variants of an H200."""
    parts = name.split()
    return "NVIDIA_H200" if framework == "vllm" and "H200" in parts else "_".join(parts)


def _quantisation(dtype: str, block_shape: Sequence[int], framework: Framework) -> str:
    separator = "," if framework == "vllm" else ", "
    shape = f",block_shape=[{separator.join(map(str, block_shape))}]" if block_shape else ""
    return (f",dtype={dtype}" if dtype else "") + shape


def _path_of(tuned: Tuned) -> Path | str:
    named = tuned.store_path if isinstance(tuned, Autotuner) else tuned
    return open_store(named).path


def _of_one(
    measured: Sequence[Measurement], what: str, wanted: str | None, name_of: Callable[[Measurement], str]
) -> list[Measurement]:
    """Return those measurements that are of one thing, by its name; of the only one if None."""
    names = sorted({name_of(each) for each in measured})
    if wanted is None and len(names) == 1:
        wanted = names[0]
    if wanted not in names:
        raise CostModelError(
            f"The {what} must be in the store, but got {wanted!r}. It has "
            f"{', '.join(names[:10]) or 'none'}.{did_you_mean(wanted or '', names)}"
        )
    return [each for each in measured if name_of(each) == wanted]


def _device_of(measured: Sequence[Measurement]) -> Device:
    return measured[-1].platform.device


def _size(measurement: Measurement, dims: Mapping[str, str], name: str) -> int:
    workload = measurement.candidate.workload
    size = workload.dims.get(dims.get(name, ""))
    if size is None:
        raise CostModelError(
            f"dims must give the letter of {name} in {workload.name}, but got {dict(dims)}. `letters` of "
            "the kernel gives the letters of the key's arguments."
        )
    return size


def _moe_config(measurement: Measurement) -> dict[str, object]:
    decisions = measurement.candidate.config.decisions
    missing = [name for name in _MOE_PARAMETERS if name not in decisions]
    if missing:
        raise CostModelError(
            f"A config of a fused-MoE kernel must have {', '.join(_MOE_PARAMETERS)}, but one of "
            f"{measurement.candidate.workload.name} lacks {', '.join(missing)}."
        )
    return {name: decisions[name] for name in [*_MOE_PARAMETERS, *decisions]}
