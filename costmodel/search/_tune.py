"""The loop: propose kernels, measure them at every SM budget, learn, and again."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from costmodel.collector import Runner
from costmodel.search._ask import heartbeat
from costmodel.search._result import SearchResult
from costmodel.search._search import Search
from costmodel.search.samplers import SpaceSampler


def tune(runner: Runner, sampler: SpaceSampler, n_measurements: int, **settings: Any) -> SearchResult:
    """Search the sampler's space for good kernels, measuring only what is proposed, at every SM budget.

    The study holds all that is known of the search, so one that was stopped or killed goes on where it was
    when it is given again: ``n_measurements`` counts those that the study holds already. Several processes
    may tune one study at once, through any storage that they share; none measures what another has. Trials
    of a process that is gone are given up, and their configs may come again.

    Args:
        runner: Measures, on the platforms of the sampler's space.
        sampler: Proposes configs of its space.
        n_measurements: Candidates to measure in all; the search ends before where the space is used up.
        **settings: ``study``, ``first``, ``batch``, ``stop_gain`` and ``on_trial``, see ``Search``.

    Returns:
        All measured trials of the study.

    Raises:
        CostModelError: The study is of another space or another objective, or the runner cannot measure.
        TypeError: ``stop_gain`` is given with a sampler without a model.
    """
    (result,) = tune_together([Search(runner, sampler, n_measurements, **settings)])
    return result


def tune_together(searches: Sequence[Search]) -> list[SearchResult]:
    """Make searches in turn, batch by batch: one builds while another measures.

    Each finds what it would find alone.

    Args:
        searches: They may share a runner; what takes longest to build comes first.

    Returns:
        The result of each, in order.

    Raises:
        CostModelError: A runner cannot measure.
    """
    with ExitStack() as stack:
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
