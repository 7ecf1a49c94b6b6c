"""Dispatch tables: which kernel to run for a granted number of SMs, in a file that a server can read.

Numbers of SMs that were not measured are assigned as follows. Between the last measured budget of a range and
the first of the next, the latencies of both kernels are interpolated (log seconds over log SMs). The next
range begins where its kernel is no longer the slower one. On left-out budgets of the shipped dataset, this
rule lost 3.6% in the geometric mean; the kernel of the nearest measured budget lost 4.3%, and that of the
next smaller budget 5.8% (experiments/several_budgets). The first range also serves fewer SMs than were
measured, and the last one extends to the whole device.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from costmodel.arguments import check_path, check_whole
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import read_json
from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.search._portfolio import BudgetRange
from costmodel.search._provenance import Provenance

DISPATCH_VERSION = 1


class DispatchRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kernel to run on a range of SMs.

    Attributes:
        from_sms: Fewest SMs in the range.
        to_sms: Most SMs in the range.
        space: Name of the space of the config.
        config_id: Content address of the config.
        config: The config, with its decisions.
        latency_s: Latency in seconds at each measured SM budget of the range, by number of SMs.
        regret: Latency over the best measured latency, minus 1, at the same budgets.
    """

    from_sms: int
    to_sms: int
    space: str
    config_id: str
    config: Config
    latency_s: dict[int, float]
    regret: dict[int, float]

    def __post_init__(self) -> None:
        """Check what the types cannot say, also when a file is decoded."""
        if not 1 <= self.from_sms <= self.to_sms:
            raise ValueError(f"1 <= from_sms <= to_sms must hold, but got {self.from_sms} and {self.to_sms}")
        if self.config_id != self.config.config_id:
            raise ValueError(
                f"config_id must be that of the decisions, {self.config.config_id}, but got {self.config_id}"
            )
        if not self.latency_s or self.latency_s.keys() != self.regret.keys():
            raise ValueError(
                "latency_s and regret must hold the same measured SM budgets, one or more, "
                f"but got {sorted(self.latency_s)} and {sorted(self.regret)}"
            )


class DispatchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dispatch table of a workload: which kernel to run for a granted number of SMs.

    Attributes:
        schema_version: Version of this schema.
        workload: The workload.
        device: The device on which the kernels were measured.
        objective: The objective by which the kernels were chosen.
        ranges: Ranges from 1 SM to the whole device, in order, without gaps.
        provenance: Where the choice came from.
    """

    schema_version: int = DISPATCH_VERSION
    workload: Workload
    device: Device
    objective: str
    ranges: tuple[DispatchRange, ...]
    provenance: Provenance

    def __post_init__(self) -> None:
        """Check what the types cannot say, also when a file is decoded."""
        if self.schema_version != DISPATCH_VERSION:
            raise ValueError(f"schema_version must be {DISPATCH_VERSION}, but got {self.schema_version}")
        if not self.ranges or self.ranges[0].from_sms != 1:
            raise ValueError("ranges must begin at 1 SM")
        for lower, upper in pairwise(self.ranges):
            if upper.from_sms != lower.to_sms + 1:
                raise ValueError(
                    "each range must begin where the one before it ends, "
                    f"but one ends at {lower.to_sms} SMs and the next begins at {upper.from_sms}"
                )

    def range_for(self, sms: int) -> DispatchRange:
        """Return the range that contains this number of granted SMs.

        Raises:
            CostModelError: No range contains it.
        """
        check_whole("sms", sms, 1)
        for part in self.ranges:
            if part.from_sms <= sms <= part.to_sms:
                return part
        raise CostModelError(
            f"The dispatch table of {self.workload.name} serves 1 to {self.ranges[-1].to_sms} SMs of "
            f"{self.device.name}, but got {sms}. Ask for the SMs that were granted, or tune for this device."
        )

    def kernel_for(self, sms: int) -> Candidate:
        """Return the kernel to run on this number of granted SMs.

        Raises:
            CostModelError: No range contains it.
        """
        part = self.range_for(sms)
        return Candidate(self.workload, part.space, part.config)

    def save(self, path: Path | str) -> None:
        """Write the table as JSON, atomically; missing folders are created.

        Raises:
            CostModelError: The file cannot be written.
        """
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        write_whole(check_path("path", path), text + b"\n")


def dispatch_ranges(
    kernels: Sequence[Candidate],
    ranges: Sequence[BudgetRange],
    latency_s: FloatArray,
    sms: Sequence[int],
    whole_sms: int,
) -> tuple[DispatchRange, ...]:
    """Extend the ranges of a portfolio to all SMs of a device, including those that were not measured.

    Args:
        kernels: ``(n,)`` all measured kernels.
        ranges: The chosen kernels and their SM budgets.
        latency_s: ``(n, b)`` seconds; inf for a failure.
        sms: ``(b,)`` SMs of each budget, ascending.
        whole_sms: SMs of the whole device; 0 if unknown.
    """
    best_s = latency_s.min(axis=0)
    starts = [1, *(_boundary(lower, upper, latency_s, sms) for lower, upper in pairwise(ranges))]
    ends = [*(start - 1 for start in starts[1:]), max(whole_sms, sms[-1], 1)]
    return tuple(
        DispatchRange(
            from_sms=start,
            to_sms=end,
            space=kernels[part.kernel].space,
            config_id=kernels[part.kernel].config.config_id,
            config=kernels[part.kernel].config,
            latency_s={sms[i]: float(latency_s[part.kernel, i]) for i in part.budgets},
            regret={sms[i]: float(latency_s[part.kernel, i] / best_s[i]) - 1.0 for i in part.budgets},
        )
        for start, end, part in zip(starts, ends, ranges, strict=True)
    )


def _boundary(lower: BudgetRange, upper: BudgetRange, latency_s: FloatArray, sms: Sequence[int]) -> int:
    """Return the fewest SMs of the upper range, where its kernel is expected to be no slower."""
    few, many = sms[lower.last], sms[upper.first]
    share = np.log(np.arange(few + 1, many) / few) / np.log(many / few)
    pair = [lower.kernel, upper.kernel]
    log_few, log_many = np.log(latency_s[pair, lower.last]), np.log(latency_s[pair, upper.first])
    expected = np.outer(1.0 - share, log_few) + np.outer(share, log_many)
    faster = np.flatnonzero(expected[:, 1] <= expected[:, 0])
    return few + 1 + int(faster[0]) if faster.size else many


def load_dispatch_table(path: Path | str) -> DispatchTable:
    """Read a dispatch table from a JSON file.

    Raises:
        CostModelError: The file cannot be read, or is no dispatch table of this version.
    """
    remedy = "Write one with `costmodel tune WORKLOAD --sms 16,32,132 --portfolio 3 --dispatch FILE`."
    return read_json(path, DispatchTable, f"a dispatch table of version {DISPATCH_VERSION}", remedy=remedy)
