"""What a model takes on one hypothetical device after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.planner.graphs import KernelGraph, RecordedGraph
from costmodel.planner.report import Plan, plan
from costmodel.planner.whatif import OnDevice, Transform, parse_what_if
from costmodel.records import Device, Sweep, find_device, swept_devices
from costmodel.transfer.hardware import draw_swept

if TYPE_CHECKING:
    from costmodel.figures import Picture
    from costmodel.planner.latencies import Latencies


@dataclass(frozen=True)
class SweptPlan:
    """A model on hypothetical devices.

    Attributes:
        plan: The model as it is, and with the transforms, on the device that it was recorded on.
        device: That device.
        names: The quantities that are swept.
        table: A row a device: the quantities, ``latency_s`` (the makespan), ``low_s`` and ``high_s`` (the
            least and the most that it could be), and ``speedup`` over the model as it was recorded.
        assumptions: What was taken for granted on the last of the devices.
    """

    plan: Plan
    device: Device
    names: tuple[str, ...]
    table: pd.DataFrame
    assumptions: tuple[str, ...]

    def plot(self) -> "Picture":
        """Latency with its band over the first quantity, a line for each value of the second."""
        return draw_swept(self.table, self.names, f"{self.plan.name} on {self.device.name}, changed")

    def to_dict(self) -> dict[str, Any]:
        """What the command writes as JSON."""
        return {
            "name": self.plan.name,
            "device": self.device.name,
            "recorded_s": self.plan.before.makespan_s,
            "devices": self.table.to_dict(orient="records"),
            "assumptions": list(self.assumptions),
        }


def sweep_plan(  # noqa: PLR0913 (settings, most with defaults)
    model: "Path | str | RecordedGraph | KernelGraph",
    device: Device | str,
    sweeps: Sequence[Sweep | str],
    what_if: str | Sequence[Transform] = (),
    *,
    within: str = "",
    measured_s: float | None = None,
    sms: int | None = None,
    latencies: "Latencies | None" = None,
) -> SweptPlan:
    """What a model takes if its device had other quantities.

    Args:
        model: A trace of PyTorch's profiler, a JSON graph of one's own, or a graph.
        device: The device that it was recorded on, or its name.
        sweeps: What is swept, such as ``sms=64:256:16``: one quantity or two.
        what_if: Transforms that come first, as of ``plan``.
        within: See ``plan``.
        measured_s: See there.
        sms: See there.
        latencies: See there.

    Raises:
        CostModelError: As of ``plan``, or a sweep is wrong, see ``Sweep`` and ``swept_devices``.
    """
    recorded = find_device(device) if isinstance(device, str) else device
    first = parse_what_if(what_if, latencies) if isinstance(what_if, str) else list(what_if)
    chosen = [Sweep.parse(each) if isinstance(each, str) else each for each in sweeps]
    changes, made = zip(*swept_devices(recorded, chosen), strict=True)
    base = plan(model, first, within=within, measured_s=measured_s, sms=sms, latencies=latencies)
    start = base.before.graph
    found = [plan(start, [*first, OnDevice(recorded, each)]) for each in made]
    rows = [
        {**change, "latency_s": each.after.makespan_s, **_ends(each), "speedup": each.speedup}
        for change, each in zip(changes, found, strict=True)
    ]
    return SweptPlan(
        base, recorded, tuple(each.name for each in chosen), pd.DataFrame(rows), found[-1].assumptions
    )


def _ends(found: Plan) -> dict[str, float]:
    low, high = found.ends_s or (found.after.makespan_s, found.after.makespan_s)
    return {"low_s": low, "high_s": high}
