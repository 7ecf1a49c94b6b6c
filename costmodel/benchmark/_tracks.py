"""The tracks: which questions each asks, and by which scores it judges the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.errors import CostModelError, did_you_mean


@dataclass(frozen=True)
class BenchTrack:
    """A track.

    Attributes:
        asks: What it is about, in a sentence.
        questions: Names of its questions.
        scores: Names of its scores; entries are ranked by the first.
    """

    asks: str
    questions: Sequence[str]
    scores: Sequence[str]


TRACKS: Mapping[str, BenchTrack] = {
    "rank": BenchTrack(
        "Which kernel is fastest on so many SMs, of an operator or a kernel that was never measured?",
        ("operators", "kernels", "products"),
        ("score_at_1", "score_at_8", "gap_recovered"),
    ),
    "latency": BenchTrack(
        "How long does it take, and within which ends in nine of ten cases?",
        ("operators", "kernels", "products"),
        ("latency_error", "coverage", "log_width"),
    ),
    "budget": BenchTrack(
        "All was timed on the whole GPU: which kernel is fastest on a part of it?",
        ("budgets",),
        ("gap_recovered", "score_at_1", "latency_error"),
    ),
    "device": BenchTrack(
        "Which kernel is fastest on a GPU that was never measured, and how long does it take?",
        ("devices",),
        ("score_at_1", "latency_error", "coverage"),
    ),
    "few": BenchTrack(
        "Which kernel is to be measured next after 1, 4 or 16 random ones?",
        ("few-1", "few-4", "few-16"),
        ("score_at_1", "latency_error"),
    ),
    "harm": BenchTrack(
        "Eight were measured: does what is known of others do harm, where it is right and where it misleads?",
        ("honest", "misled"),
        ("no_harm", "score_at_1"),
    ),
}
"""Each track by name."""


_BASELINES = {
    "kernels": "costmodel-read",
    "products": "costmodel-products",
    "budgets": "costmodel-known-elsewhere",
}


def baseline_of(question: str) -> str:
    """Return the entry with which others are compared: what this package would choose by there."""
    return _BASELINES.get(question, "costmodel-decided")


def tracks_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return these names of tracks in their order, or all if there are none.

    Raises:
        CostModelError: A track is unknown.
    """
    for name in names:
        if name not in TRACKS:
            raise CostModelError(
                f"A track must be one of {', '.join(TRACKS)}, but got {name!r}.{did_you_mean(name, TRACKS)}"
            )
    return tuple(name for name in TRACKS if not names or name in names)
