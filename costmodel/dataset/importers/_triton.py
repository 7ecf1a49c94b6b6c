"""Configs of Triton's kernels: caches of ``triton.autotune``, and lists of best MoE configs.

With ``cache_results=True`` Triton keeps ``<kernel>.autotune.json``: an object of ``key``, a list, and
``configs_timings``, a list of ``[config, milliseconds]``. The timings are the median and the quantiles of 20
and 80 %, infinite where a config could not be compiled or has too little memory. Source: Triton 3.4,
``python/triton/runtime/autotuner.py`` (``Autotuner.check_disk_cache``).

vLLM and SGLang ship ``E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json``: an object of the
config that was fastest for each number of tokens. Nothing says how long any of them takes, so they are
choices and no measurements. Source: vLLM 0.11, ``model_executor/layers/fused_moe/fused_moe.py``
(``get_config_file_name``).
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    add_software,
    find_given_workload,
    find_named_device,
    find_platform_file,
    foreign_workload,
    locate,
    make_candidate,
    require_platform,
    workload_of_arguments,
)
from costmodel.dataset.sources._entry import EntryError, to_decision, to_seconds
from costmodel.dataset.sources._source import ChosenConfig, Entry, FileContents, Origin, Reject, Repair
from costmodel.errors import CostModelError
from costmodel.records._candidate import Decision
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

_VERSION = "triton_version"
_SIZE = r"[1-9]\d{0,14}"
_NAME = re.compile(rf"E=({_SIZE}),N=({_SIZE}),device_name=([^,]+)(.*)\.json(?:\.gz)?", re.ASCII)


def read_moe(file: InputFile, options: ReadOptions) -> FileContents:
    """Read the choices of a file; its name says the experts, the device and the types.

    Raises:
        CostModelError: Its name is another.
    """
    found = _NAME.fullmatch(file.path.name)
    if not found:
        raise CostModelError(
            f"{file.path} must have the name that vLLM and SGLang give such a file, as in "
            "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json: it says what they are for."
        )
    experts, columns, device, variant = found.groups()
    name = device.replace("_", " ")
    where = locate(find_named_device(name), name, find_platform_file(file.path, options.platform))
    dims = {"e": int(experts), "n": int(columns)}
    return FileContents.of(file.path, _choices(file, variant, dims, where.platform))


def _choices(
    file: InputFile, variant: str, dims: dict[str, int], platform: Platform
) -> Iterator[ChosenConfig | Reject]:
    origin, fields = Origin.of(file.path), dict(file.document.fields)
    version = fields.pop(_VERSION, "")
    versions = {"triton": version} if isinstance(version, str) and version else {}
    platform = add_software(platform, {**versions, "moe_configs": origin.text})
    for tokens, config in fields.items():
        try:
            yield _choice(tokens, config, variant, dims, platform)
        except EntryError as error:
            yield origin.reject(str(error), {tokens: config})


def _choice(tokens: str, config: Any, variant: str, dims: dict[str, int], platform: Platform) -> ChosenConfig:
    if not re.fullmatch(_SIZE, tokens, re.ASCII) or not isinstance(config, dict) or not config:
        raise EntryError("an entry must be a number of tokens with a config")
    workload = foreign_workload("moe", "fused_moe", variant, {**dims, "m": int(tokens)})
    decisions = {name: to_decision(value) for name, value in config.items()}
    return ChosenConfig(make_candidate("moe", workload, decisions, None), platform)


_TIMINGS = "configs_timings"
_NOT_CHOSEN = ("pre_hook",)  # of a config: it prepares the inputs


def read_triton_autotune(file: InputFile, options: ReadOptions) -> FileContents:
    """Read a cache. The file's name is the kernel's, and its platform is said beside it.

    Raises:
        CostModelError: Its key is no list, or nothing says the platform.
    """
    key = file.document.fields.get("key")
    if not isinstance(key, list):
        raise CostModelError(f"{file.path} must be a cache of triton.autotune, but its `key` is no list.")
    where = require_platform(find_platform_file(file.path, options.platform), file.path)
    return FileContents.of(file.path, _entries(file, key, where, options))


def _entries(file: InputFile, key: list[Any], where: PlatformFile, options: ReadOptions) -> Iterator[Entry]:
    origin = Origin.of(file.path)
    workload, given = _workload(file, key), find_given_workload(where, options)
    platform = where.at_file("triton_autotune_cache", origin.text)
    quantiles = 0
    for number, (_, entry) in enumerate(file.document.entries(_TIMINGS), start=1):
        try:
            yield _measurement(entry, workload, given, platform)
            quantiles += isinstance(entry[1], list) and len(entry[1]) > 1
        except EntryError as error:
            yield origin.reject(str(error), entry, number)
    if quantiles:
        yield Repair("of the median and quantiles of a timing, the median is read", quantiles)


def _workload(file: InputFile, key: list[Any]) -> Workload:
    name = file.path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".autotune")
    try:
        return workload_of_arguments("triton", name, key)
    except (ValueError, OverflowError, RecursionError):
        raise CostModelError(
            f"{file.path} must be a cache of triton.autotune, but its `key` is nested too deeply."
        ) from None


def _measurement(entry: Any, workload: Workload, given: Workload | None, platform: Platform) -> Measurement:
    match entry:
        case [dict() | str() as config, int() | float() as timing]:
            median_ms = timing
        case [dict() | str() as config, [int() | float() as median_ms, *_]]:
            pass
        case _:
            raise EntryError("an entry must be a config and its timings, which are numbers")
    decisions = {"config": config} if isinstance(config, str) else _decide(config)
    failed = median_ms == math.inf
    return Measurement(
        candidate=make_candidate("triton", workload, decisions, given),
        platform=platform,
        outcome=Outcome.COMPILE_ERROR if failed else Outcome.OK,
        latencies_s=() if failed else (to_seconds(median_ms, 1e3, "timings"),),
        runs_per_repeat=0 if failed else 1,
        l2_policy="flushed",  # as triton.testing.do_bench does before each run
        measured_at="",
        error="Triton records no reason" if failed else "",
    )


def _decide(config: Mapping[str, Any]) -> dict[str, Decision]:
    """Read the kernel's parameters and Triton's own; those that were left to Triton (null) are none."""
    own = config.get("kwargs")
    if not isinstance(own, dict):
        raise EntryError("a config must have its parameters in kwargs")
    others = {name: value for name, value in config.items() if name not in ("kwargs", *_NOT_CHOSEN)}
    if own.keys() & others.keys():
        raise EntryError("a parameter of a kernel must not have the name of one of Triton's")
    return {name: to_decision(value) for name, value in {**own, **others}.items() if value is not None}
