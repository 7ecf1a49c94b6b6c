"""The best of what was measured beside others, measured again alone."""

from dataclasses import replace

from costmodel.collector.runners._base import Runner
from costmodel.search._result import SearchResult
from costmodel.search._trial import Trial

# Beside three others on an H100, the kernel that won was at worst 8 % behind the best.
_FINALISTS = 3


def with_finalists_alone(runner: Runner, result: SearchResult, most: int) -> SearchResult:
    """A result whose best kernels have the latencies that they have alone on the device.

    These are three or more: it goes on until every kernel that is chosen was measured alone. What the study
    was told stays as it is.

    Args:
        runner: What measured.
        result: What it measured.
        most: Kernels that may be chosen.
    """
    alone = runner.alone
    is_whole = all(platform.sms_granted == platform.device.sms for platform in result.platforms)
    if alone is runner or is_whole:  # a whole device is measured alone anyway
        return result
    done: set[int] = set()
    while left := _finalists(result, most) - done:
        trials = [
            _alone(alone, result, trial) if i in left else trial for i, trial in enumerate(result.trials)
        ]
        done |= left
        result = replace(result, trials=tuple(trials), finalists=tuple(sorted(done)))
    return result


def _finalists(result: SearchResult, most: int) -> set[int]:
    """Positions of the best trials, and of those that are chosen."""
    positions = {trial.number: i for i, trial in enumerate(result.trials)}
    best = [positions[trial.number] for trial in result.ranked if max(trial.latency_s) < float("inf")]
    return {part.kernel for part in result.portfolio(most)}.union(best[:_FINALISTS])


def _alone(runner: Runner, result: SearchResult, trial: Trial) -> Trial:
    """A trial as it is measured alone at every SM budget."""
    measured = [one for platform in result.platforms for one in runner.measure([trial.candidate], platform)]
    errors = [one.error for one in measured if one.error]
    return replace(
        trial,
        outcomes=tuple(one.outcome for one in measured),
        latency_s=tuple(one.latency_s for one in measured),
        error=errors[0] if errors else "",
    )
