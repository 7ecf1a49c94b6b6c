"""A dispatch table: which kernel to run for the SMs that are granted, as a file that a server reads.

Rule for SMs that were not measured: a range reaches from its smallest measured budget to just below that of
the next range. Its kernel was measured on fewer SMs than are granted, and more SMs do not make a kernel
slower, but a kernel chosen for more SMs may be far slower on fewer. The first range also serves fewer SMs
than were measured, and the last reaches to the whole device.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, Device, Workload
from costmodel.search._result import Provenance

DISPATCH_VERSION = 1


class DispatchRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kernel to run on a range of SMs.

    Attributes:
        from_sms: Fewest SMs that it serves.
        to_sms: Most SMs that it serves.
        space: Name of the space that the config was chosen from.
        config_id: Content address of the config.
        config: Its decisions.
        latency_s: Seconds at each measured budget of the range.
        regret: Latency over the best measured there, minus 1, at the same budgets.
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
    """Which kernel of a workload to run for the SMs that are granted.

    Attributes:
        schema_version: Version of this schema.
        workload: What is computed.
        device: Where it was measured.
        objective: What the kernels were chosen by.
        ranges: From 1 SM to the whole device, in order, without gaps.
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
        """The range that holds so many granted SMs.

        Raises:
            CostModelError: No range does.
        """
        for part in self.ranges:
            if part.from_sms <= sms <= part.to_sms:
                return part
        raise CostModelError(
            f"The dispatch table of {self.workload.name} serves 1 to {self.ranges[-1].to_sms} SMs of "
            f"{self.device.name}, but got {sms}. Ask for the SMs that were granted, or tune for this device."
        )

    def kernel_for(self, sms: int) -> Candidate:
        """The kernel to run on so many granted SMs.

        Raises:
            CostModelError: No range holds them.
        """
        part = self.range_for(sms)
        return Candidate(self.workload, part.space, part.config)


def dispatch_ranges(
    kernels: Sequence[Candidate],
    latency_s: Sequence[Mapping[int, float]],
    best_s: Mapping[int, float],
    whole_sms: int,
) -> tuple[DispatchRange, ...]:
    """Ranges over all SMs of a device, by the rule for SMs that were not measured.

    Args:
        kernels: One for each range, in order of SMs.
        latency_s: Seconds of each of them at the measured budgets of its range.
        best_s: Best measured seconds at each budget.
        whole_sms: SMs of the whole device; 0 where unknown.
    """
    starts = [1, *(min(latencies) for latencies in latency_s[1:])]
    ends = [*(start - 1 for start in starts[1:]), max(whole_sms, *latency_s[-1])]
    return tuple(
        DispatchRange(
            from_sms=start,
            to_sms=end,
            space=kernel.space,
            config_id=kernel.config.config_id,
            config=kernel.config,
            latency_s=dict(latencies),
            regret={sms: latency / best_s[sms] - 1.0 for sms, latency in latencies.items()},
        )
        for start, end, kernel, latencies in zip(starts, ends, kernels, latency_s, strict=True)
    )


def save_dispatch_table(table: DispatchTable, path: Path) -> None:
    """Write a table as JSON, at once; its folder is made.

    Raises:
        CostModelError: The file cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n")
        partial.replace(path)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error


def load_dispatch_table(path: Path) -> DispatchTable:
    """Read a table.

    Raises:
        CostModelError: The file cannot be read or is no dispatch table of this version.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=DispatchTable)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise CostModelError(
            f"{path} must be a dispatch table of version {DISPATCH_VERSION}, but: {error}. "
            "Write one with `costmodel tune WORKLOAD --sms 16,32,132 --portfolio 3 --dispatch FILE`."
        ) from None
