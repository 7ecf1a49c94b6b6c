"""Devices of different names that measured nearly the same: knowing one gives the other away."""

from collections.abc import Iterator

from costmodel.dataset.checks._finding import Finding, Severity, some
from costmodel.dataset.splits._similarity import DevicePair, DeviceSimilarity, describe_pairs, twin_groups


def twin_findings(similarity: DeviceSimilarity) -> Iterator[Finding]:
    """Near-twins among the devices of what enters; see ``_similarity`` for the rule."""
    every = describe_pairs(similarity)
    for group in twin_groups(similarity):
        pairs = [pair for pair in every if pair.first in group and pair.second in group]
        yield Finding(
            kind="near-twins",
            severity=Severity.WARNING,
            concerns=", ".join(group),
            count=sum(pair.tasks for pair in pairs),
            message="Devices must differ if one is to be held out alone, but these measured nearly the same "
            "in the tasks that are counted: a split holds them out as one, unless told to keep them apart.",
            examples=some(list(map(_agreement, pairs))),
        )


def _agreement(pair: DevicePair) -> str:
    return (
        f"{pair.first} and {pair.second}: rank correlation {pair.rho:.3f}, latencies within "
        f"{pair.deviation:.1%} of a factor"
    )
