"""Which measurements a campaign makes of its candidates, and which of them together."""

from collections.abc import Sequence

import msgspec

from costmodel.collector.campaign._config import CampaignConfig
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform

Batch = list[Request]


class CampaignSchedule:
    """The requests of a campaign, in batches that are timed side by side.

    Args:
        config: The campaign.
        platforms: Where every kernel is measured.
        mps_platforms: Where a share of them is measured as well.

    Raises:
        CostModelError: Two budgets are granted the same SMs.
    """

    def __init__(
        self, config: CampaignConfig, platforms: Sequence[Platform], mps_platforms: Sequence[Platform] = ()
    ) -> None:
        _check_distinct([*platforms, *mps_platforms])
        self._config = config
        self._platforms = platforms
        self._mps_platforms = mps_platforms

    def first_visits(self, candidates: Sequence[Candidate]) -> list[Batch]:
        """Each candidate once on each platform, a share of them under MPS."""
        share = self._config.mps.share if self._config.mps else 0.0
        on_mps = [c for c in candidates if _is_in_share(share, "mps", c.candidate_id)]
        return [
            *self._batches(candidates, self._platforms),
            # Under MPS each budget has its own process: a batch there is of one platform.
            *(batch for platform in self._mps_platforms for batch in self._batches(on_mps, [platform])),
        ]

    def repeats(self, candidates: Sequence[Candidate]) -> list[Batch]:
        """The share of the first visits that is made a second time, chosen by key: every run agrees."""
        share = self._config.repeat_share
        batches = (
            [
                msgspec.structs.replace(request, visit=1)
                for request in batch
                if _is_in_share(share, request.key)
            ]
            for batch in self.first_visits(candidates)
        )
        return [batch for batch in batches if batch]

    def finalists(self, measured: Sequence[Measurement]) -> list[Batch]:
        """The fastest of what was measured beside others, alone."""
        best: list[Candidate] = []
        for platform in self._platforms:
            if self._partitions(platform) > 1:
                beside = [m for m in measured if m.co_runners and m.visit == 0 and _is_ok_on(m, platform)]
                beside.sort(key=lambda m: m.latency_s)
                best += [m.candidate for m in beside[: self._config.finalists]]
        distinct = list({candidate.candidate_id: candidate for candidate in best}.values())
        shared = [platform for platform in self._platforms if self._partitions(platform) > 1]
        return self._batches(distinct, shared, alone=True)

    def _batches(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform], *, alone: bool = False
    ) -> list[Batch]:
        """Requests for all pairs; those that share the number of partitions may share a batch."""
        size = self._config.side_by_side * self._config.partitions
        by_partitions: dict[int, list[Platform]] = {}
        for platform in platforms:
            by_partitions.setdefault(1 if alone else self._partitions(platform), []).append(platform)
        return [
            [Request(c, p, partitions=n) for p in group for c in candidates[i : i + size]]
            for n, group in by_partitions.items()
            for i in range(0, len(candidates), size)
        ]

    def _partitions(self, platform: Platform) -> int:
        """How many of a platform's partitions measure at once."""
        wanted = self._config.partitions
        fits = platform.isolation == "green_context" and wanted * platform.sms_granted <= platform.device.sms
        return wanted if fits else 1


def _check_distinct(platforms: Sequence[Platform]) -> None:
    """Check that no two budgets are granted the same, or their measurements would be taken for one."""
    seen: dict[str, Platform] = {}
    for platform in platforms:
        other = seen.setdefault(platform.platform_id, platform)
        if other is not platform:
            raise CostModelError(
                f"Each SM budget must be granted its own number of SMs, but {other.sms_requested} and "
                f"{platform.sms_requested} both get {platform.sms_granted} ({platform.name}). Leave one out."
            )


def _is_in_share(share: float, *identity: str) -> bool:
    """Whether something belongs to a share of all, by its content address."""
    return int(content_id(*identity)[:8], 16) < share * 2**32


def _is_ok_on(measurement: Measurement, platform: Platform) -> bool:
    return measurement.outcome is Outcome.OK and measurement.platform.platform_id == platform.platform_id
