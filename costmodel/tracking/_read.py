"""Finding runs again, and comparing them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel.errors import CostModelError
from costmodel.tracking._base import RunRecord


def find_run(runs: Sequence[RunRecord], wanted: str) -> RunRecord:
    """Find the run whose id equals, or begins with, the given text.

    Raises:
        CostModelError: If there is no such run, or there are several.
    """
    found = [run for run in runs if run.run_id == wanted] or [
        run for run in runs if wanted and run.run_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(f"{run.run_id[: len(wanted) + 4]} ({run.name})" for run in found[:5])
        raise CostModelError(
            f"A run id must begin like one run only, but {wanted!r} begins like {len(found)}: {ids}. "
            "Give more of it."
        )
    raise CostModelError(
        f"A run id must be one that `costmodel experiments list` shows, or its beginning, but got {wanted!r}."
    )


@dataclass(frozen=True)
class Difference:
    """A name with its value in each run.

    Attributes:
        name: Name of a parameter, tag or metric.
        values: One value per run; None if a run has none.
    """

    name: str
    values: tuple[str | float | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Comparison of runs.

    Attributes:
        runs: The runs.
        parameters: Parameters that differ.
        tags: Tags that differ, except those of the process alone.
        metrics: All metrics that at least two runs have.
    """

    runs: tuple[RunRecord, ...]
    parameters: tuple[Difference, ...]
    tags: tuple[Difference, ...]
    metrics: tuple[Difference, ...]


def compare_runs(runs: Sequence[RunRecord]) -> Comparison:
    """Compare runs: what differs between them, and their metrics.

    Raises:
        CostModelError: If there are fewer than two runs.
    """
    if len({run.run_id for run in runs}) < 2:
        raise CostModelError(f"Two different runs or more must be given to compare, but got {len(runs)}.")
    return Comparison(
        tuple(runs),
        tuple(d for d in _side_by_side(runs, lambda run: run.parameters) if _differs(d)),
        tuple(d for d in _side_by_side(runs, lambda run: run.tags) if _differs(d) and _is_telling(d.name)),
        tuple(d for d in _side_by_side(runs, lambda run: run.metrics) if _known(d) > 1),
    )


def _side_by_side(
    runs: Sequence[RunRecord], of: Callable[[RunRecord], Mapping[str, str] | Mapping[str, float]]
) -> list[Difference]:
    """What each run has, by names in the order of their first appearance."""
    names = dict.fromkeys(name for run in runs for name in of(run))
    return [Difference(name, tuple(of(run).get(name) for run in runs)) for name in names]


def _differs(difference: Difference) -> bool:
    return len(set(difference.values)) > 1


def _known(difference: Difference) -> int:
    return sum(value is not None for value in difference.values)


def _is_telling(tag: str) -> bool:
    """Whether a tag can explain why runs differ."""
    return tag.startswith(("git.", "software.", "hardware.", "dataset."))
