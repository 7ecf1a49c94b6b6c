"""Display of a dataset in a notebook."""

from collections import Counter
from collections.abc import Iterable

from costmodel.dataset.table._candidates import Candidates
from costmodel.records._platform import Platform

_MOST_NAMED = 12  # operator kinds and outcomes


def dataset_facts(
    candidates: Candidates, platforms: Iterable[Platform], outcomes: Iterable[str]
) -> dict[str, str]:
    """Return what a dataset holds, each number with its name.

    Args:
        candidates: Its candidates.
        platforms: Its platforms.
        outcomes: Outcome of each measurement.
    """
    by_outcome = Counter(outcomes)
    workloads = candidates.workloads
    by_kind = Counter(workload.kind for workload in workloads)
    return {
        "measurements": f"{by_outcome.total():,} ({_listed(by_outcome)})",
        "candidates": f"{len(candidates):,}",
        "workloads": f"{len(workloads):,} ({_listed(by_kind)})",
        **_parts_of_devices(platforms),
    }


def _parts_of_devices(platforms: Iterable[Platform]) -> dict[str, str]:
    """Return the SMs granted of each device, by how they were set apart."""
    granted: dict[str, dict[str, list[int]]] = {}
    for platform in platforms:
        parts = granted.setdefault(platform.device.name, {})
        parts.setdefault(platform.isolation, []).append(platform.sms_granted)
    return {
        device: "; ".join(
            f"{', '.join(map(str, sorted(sms)))} SMs ({isolation})"
            for isolation, sms in sorted(parts.items())
        )
        for device, parts in sorted(granted.items())
    }


def _listed(counts: "Counter[str]") -> str:
    """Return names with their counts, the most frequent first."""
    named = [f"{name} {count:,}" for name, count in counts.most_common(_MOST_NAMED)]
    return ", ".join([*named, "..."] if len(counts) > _MOST_NAMED else named)
