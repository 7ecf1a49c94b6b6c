"""The search loop: propose kernels, measure them at every SM budget, learn, and repeat."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from costmodel.collector.runners._base import Runner
from costmodel.search._ask import heartbeat
from costmodel.search._result import SearchResult
from costmodel.search._search import Search
from costmodel.search._study import explaining_storage
from costmodel.search.samplers._base import SpaceSampler


def tune(runner: Runner, sampler: SpaceSampler, n_measurements: int, **settings: Any) -> SearchResult:
    """Search the sampler's space for good kernels, measuring only proposed candidates, at every SM budget.

    The study holds the whole state of the search. To resume a search that was stopped or killed, pass its
    study again; ``n_measurements`` includes the measurements that the study already holds. Several processes
    may tune one study at once through a shared storage; no candidate is measured twice. Trials of a process
    that has died are given up, and their configs may be proposed again.

    Args:
        runner: Runner that measures on the platforms of the sampler's space.
        sampler: Sampler that proposes configs of its space.
        n_measurements: Total number of candidates to measure. The search ends earlier if the space is
            exhausted.
        **settings: ``study``, ``first``, ``batch``, ``stop_gain`` and ``on_trial`` (see ``Search``).

    Returns:
        All measured trials of the study.

    Raises:
        CostModelError: The study belongs to another space or objective, or the runner cannot measure.
        TypeError: ``stop_gain`` is given with a sampler without a model.
    """
    (result,) = tune_together([Search(runner, sampler, n_measurements, **settings)])
    return result


def tune_together(searches: Sequence[Search]) -> list[SearchResult]:
    """Run searches in turn, batch by batch, so that one builds while another measures.

    Each search gives the same result as it would alone.

    Args:
        searches: The searches, which may share a runner. Put the one that takes longest to build first.

    Returns:
        The result of each, in order.

    Raises:
        CostModelError: A runner cannot measure, or the storage of a study fails.
    """
    with explaining_storage(), ExitStack() as stack:
        for search in searches:
            stack.enter_context(closing(search))
        # What one has proposed waits while another measures.
        stack.enter_context(heartbeat(lambda: [trial for search in searches for trial in search.in_flight]))
        left = [search for search in searches if search.propose()]
        while left:
            left = [search for search in left if _goes_on(search)]
    return [search.result for search in searches]


def _goes_on(search: Search) -> bool:
    """Whether there is more to measure after another batch."""
    search.measure()
    return search.propose()
