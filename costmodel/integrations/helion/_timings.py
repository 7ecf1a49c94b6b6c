"""Helion's results as measurements, and a record store for what its own searches time."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Any

from helion.autotuner.base_search import BaseSearch

from costmodel.integrations.helion._records import helion_to_config, make_helion_question
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._question import Question
from costmodel.integrations.triton._timings import KernelTimings, TimingStore, open_store
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform

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
