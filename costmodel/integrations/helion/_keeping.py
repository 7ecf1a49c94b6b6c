"""Keeps what a search of Helion's own times in a record store, for ours to begin with."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from helion.autotuner.base_search import BaseSearch

from costmodel.integrations.helion._config import config_of
from costmodel.integrations.helion._question import question
from costmodel.integrations.helion._timings import helion_timings, measurements_of, on_this_stream
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._store import open_store
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform


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
    on_this_stream(search, platform)
    asked = question(search.kernel, search.args)
    timings = helion_timings(open_store(store), asked, platform)
    make_provider = search._benchmark_provider_cls

    def provider(**context: Any) -> Any:
        made = make_provider(**context)
        benchmark = made.benchmark

        @wraps(benchmark)
        def benchmark_and_keep(configs: Sequence[Any], **settings: Any) -> Any:
            results = benchmark(configs, **settings)
            candidates = [Candidate(asked.workload, asked.space, config_of(each.config)) for each in results]
            measured = measurements_of(timings, candidates, results, search._autotune_budget_exceeded())
            timings.keep(
                {each.candidate.candidate_id: each for each in measured if each is not None}.values()
            )
            return results

        made.benchmark = benchmark_and_keep
        return made

    search._benchmark_provider_cls = provider
    return search
