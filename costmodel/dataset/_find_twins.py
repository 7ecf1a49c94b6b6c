"""Devices of two names that measured nearly the same: known of one is known of the other."""

from collections.abc import Iterator

from costmodel.dataset._arrow import dataset_from_measurements
from costmodel.dataset._finding import Finding, Severity, some
from costmodel.dataset._similarity import DeviceSimilarity, device_similarity, twin_groups
from costmodel.dataset._validate import Validation


def twin_findings(validation: Validation) -> Iterator[Finding]:
    """Near-twins among the devices of what enters; see ``_similarity`` for the rule."""
    if len({record.platform.device.name for record in validation.accepted}) < 2:
        return
    similarity = device_similarity(dataset_from_measurements(validation.accepted))
    for group in twin_groups(similarity):
        positions = [similarity.devices.index(name) for name in group]
        pairs = [(i, j) for i in positions for j in positions if i < j and similarity.tasks[i, j]]
        yield Finding(
            kind="near-twins",
            severity=Severity.WARNING,
            concerns=", ".join(group),
            count=int(sum(similarity.tasks[pair] for pair in pairs)),
            message="Devices must differ if one is to be held out alone, but these measured nearly the same "
            "in the tasks that are counted: a split holds them out as one, unless told to keep them apart.",
            examples=some([_agreement(similarity, *pair) for pair in pairs]),
        )


def _agreement(similarity: DeviceSimilarity, i: int, j: int) -> str:
    return (
        f"{similarity.devices[i]} and {similarity.devices[j]}: rank correlation {similarity.rho[i, j]:.3f}, "
        f"latencies within {similarity.deviation[i, j]:.1%} of a factor"
    )
