"""Helion's kernels, configs and results in terms of the record store, and back."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import is_dataclass
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from string import ascii_lowercase
from types import CodeType, FunctionType
from typing import Any

import helion
import torch
import triton
from helion.autotuner.base_search import BaseSearch
from torch.utils._pytree import tree_flatten, tree_leaves

from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._question import Question, type_runs
from costmodel.integrations.triton._timings import KernelTimings, TimingStore, open_store
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

# Settings of Helion that change the code of a config.
_SETTINGS = ("backend", "dot_precision", "fast_math", "index_dtype", "static_shapes")
_ITEM = re.compile(r"(.+)\[(\d+)\]", re.ASCII)
_JSON = re.compile(r"null|true|false|\[.*\]")


def make_helion_question(kernel: Any, args: Sequence[object]) -> Question:
    """Tell what a bound kernel asks, but for the platform.

    The dims of the workload are the sizes of all tensors and the positive whole numbers among the arguments,
    in order, as far as there are letters; whatever else is known enters the name of the space.

    Args:
        kernel: The ``helion.runtime.BoundKernel``.
        args: What it is called with.
    """
    leaves = tree_leaves(list(args))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    numbers = [size for each in leaves for size in _numbers(each)]
    dims = dict(zip(ascii_lowercase, [size for size in numbers if size > 0], strict=False))
    name = re.sub(
        r"\W+",
        "_",
        "_".join([kernel.kernel.name, *type_runs([str(each.dtype) for each in tensors])]),
        flags=re.ASCII,
    )
    told = content_id(
        kernel.kernel.kernel_source(),
        version("helion"),
        triton.__version__,
        {setting: str(getattr(kernel.settings, setting)) for setting in _SETTINGS},
        _told(list(args)),
    )
    return Question(Workload(f"helion.{name}", dims, ""), f"helion-{name}-{told[:8]}")


def _numbers(argument: object) -> Sequence[int]:
    if isinstance(argument, torch.Tensor):
        return list(argument.shape)
    return [argument] if isinstance(argument, int) and not isinstance(argument, bool) else []


def _told(arguments: object) -> list[object]:
    """What of arguments changes a kernel or its time: their structure, then each, alike in all processes."""
    leaves, structure = tree_flatten(arguments)
    return [str(structure), *map(_leaf, leaves)]


def _leaf(argument: object) -> object:
    if isinstance(argument, torch.Tensor):
        return [str(argument.dtype), list(argument.shape), list(argument.stride())]
    if isinstance(argument, FunctionType):  # Helion compiles it into the kernel
        cells = [cell.cell_contents for cell in argument.__closure__ or ()]
        return [_code(argument.__code__), _told([cells, argument.__defaults__, argument.__kwdefaults__])]
    if isinstance(argument, torch.fx.GraphModule):
        return argument.code
    if is_dataclass(argument) and not isinstance(argument, type):
        return [type(argument).__qualname__, _told(vars(argument))]
    return [type(argument).__qualname__, str(getattr(argument, "__qualname__", argument))]


def _code(code: CodeType) -> list[object]:
    """Tell what a function does, wherever it is written."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]


def helion_to_config(config: helion.Config) -> Config:
    """Return a config with one decision a number or choice: item i of a list is ``name[i]``.

    What is no number and no text, such as the order of two loops, is its JSON.

    Example:
        >>> config_of(helion.Config(block_sizes=[16, 32], range_flattens=[None])).decisions  # doctest: +SKIP
        {'block_sizes[0]': 16, 'block_sizes[1]': 32, 'range_flattens[0]': 'null'}
    """
    decisions: dict[str, Decision] = {}
    for name, value in sorted(config.config.items()):
        if isinstance(value, list):
            decisions |= {f"{name}[{i}]": _decision(item) for i, item in enumerate(value)}
        else:
            decisions[name] = _decision(value)
    return Config(decisions)


def drop_repeated(configs: Iterable[Config | None]) -> list[Config]:
    """Return those that are there, each once, in order."""
    return list({each.config_id: each for each in configs if each is not None}.values())


def config_to_helion(config: Config) -> helion.Config:
    """Return the inverse of ``helion_to_config``, whatever the order of the decisions.

    Lists without items are left to Helion, which adds them.
    """
    values: dict[str, Any] = {}
    lists: dict[str, dict[int, Any]] = {}
    for name, decision in config.decisions.items():
        if item := _ITEM.fullmatch(name):
            lists.setdefault(item[1], {})[int(item[2])] = _value(decision)
        else:
            values[name] = _value(decision)
    in_order = {name: [items[at] for at in sorted(items)] for name, items in lists.items()}
    return helion.Config.from_dict(values | in_order)


def _decision(value: Any) -> Decision:
    is_plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)


def _value(decision: Decision) -> Any:
    if isinstance(decision, str) and _JSON.fullmatch(decision):
        with suppress(ValueError, RecursionError):  # a store may hold what nobody wrote
            return json.loads(decision)
    return decision


_PER_SECOND = 1e3  # Helion tells milliseconds
# Helion says "error" of all that fails while it is compiled or run.
_OUTCOMES = {
    "ok": Outcome.OK,
    "deduplicated": Outcome.OK,
    "error": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "accuracy_error": Outcome.WRONG_RESULT,
    "peer_compilation_fail": Outcome.COMPILE_ERROR,
    "source_rejected": Outcome.INVALID_CONFIG,
    "filtered": Outcome.INVALID_CONFIG,
}


def find_fastest(timings: KernelTimings) -> Measurement | None:
    """Return the measurement of the fastest config; None where none ran."""
    ran = [each for each in timings.known.values() if each.outcome is Outcome.OK]
    return min(ran, key=lambda each: each.latency_s) if ran else None


def helion_timings(
    store: TimingStore, asked: Question, platform: Platform, *, anew: bool = False
) -> KernelTimings:
    """Return timings of a kernel as Helion takes them."""
    return KernelTimings(store, asked.workload, asked.space, platform, "flushed", anew=anew)


def stay_on_stream(search: Any, platform: Platform) -> None:
    """Let a search time on the SMs of its platform.

    Helion's worker process knows nothing of a green context, and would time on the whole GPU. The settings
    are the kernel's, for other SMs as well: the search gets its own.
    """
    if platform.isolation == "green_context":
        search.settings = copy(search.settings)
        search.settings.autotune_benchmark_subprocess = False


def measurements_of(
    timings: KernelTimings, candidates: Sequence[Candidate], results: Sequence[Any], is_late: bool
) -> list[Measurement | None]:
    """Tell what Helion found out about candidates; None for those that it did not try.

    Args:
        timings: Of the kernel.
        candidates: What was asked for.
        results: Helion's, one for each.
        is_late: Whether the time limit is past: Helion then says "error" of what it did not try.
    """
    return [
        None if is_late and result.status == "error" else _measurement_of(timings, candidate, result)
        for candidate, result in zip(candidates, results, strict=True)
    ]


def _measurement_of(timings: KernelTimings, candidate: Candidate, result: Any) -> Measurement:
    outcome = _OUTCOMES.get(result.status, Outcome.LAUNCH_ERROR)
    if outcome is Outcome.OK and not (math.isfinite(result.perf) and result.perf > 0.0):
        outcome = Outcome.LAUNCH_ERROR
    if outcome is Outcome.OK:
        return timings.made(candidate, outcome, [result.perf / _PER_SECOND])
    return timings.made(candidate, outcome, [], f"Helion told {result.status}, {result.perf} ms")


def keep_timings(
    search: BaseSearch,
    *,
    store: Path | str | None = None,
    platform: Platform | Callable[[], Platform] | None = None,
) -> BaseSearch:
    """Make a search of Helion store its timings in a record store, from which costmodel learns.

    Args:
        search: A search such as ``LFBOTreeSearch``, before it starts. It is modified.
        store: See ``costmodel_autotuner``.
        platform: See ``costmodel_autotuner``.

    Returns:
        The search.

    Example:
        >>> @helion.kernel(
        ...     autotuner_fn=lambda kernel, args, **_: keep_timings(LFBOTreeSearch(kernel, args))
        ... )  # doctest: +SKIP
        ... def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...
    """
    platform = platform() if callable(platform) else platform or current_platform()
    stay_on_stream(search, platform)
    asked = make_helion_question(search.kernel, search.args)
    timings = helion_timings(open_store(store), asked, platform)
    make_provider = search._benchmark_provider_cls

    def provider(**context: Any) -> Any:
        made = make_provider(**context)
        benchmark = made.benchmark

        @wraps(benchmark)
        def benchmark_and_keep(configs: Sequence[Any], **settings: Any) -> Any:
            results = benchmark(configs, **settings)
            candidates = [
                Candidate(asked.workload, asked.space, helion_to_config(each.config)) for each in results
            ]
            measured = measurements_of(timings, candidates, results, search._autotune_budget_exceeded())
            timings.keep(
                {each.candidate.candidate_id: each for each in measured if each is not None}.values()
            )
            return results

        made.benchmark = benchmark_and_keep
        return made

    search._benchmark_provider_cls = provider
    return search
