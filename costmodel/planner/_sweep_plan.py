"""Time of a model on a series of hypothetical devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.planner._plan import Plan, plan
from costmodel.planner.graphs._kernel_graph import KernelGraph
from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.planner.whatif._device import OnDevice
from costmodel.planner.whatif._parse import Transform, parse_what_if
from costmodel.records._device_table import find_device
from costmodel.records._hypothetical import Sweep, sweep_devices
from costmodel.records._platform import Device
from costmodel.transfer.prediction._sweep import plot_swept

if TYPE_CHECKING:
    from costmodel.planner._latencies import Latencies
    from costmodel.report._figures import NotebookFigure


@dataclass(frozen=True)
class SweptPlan:
    """A model on hypothetical devices.

    Attributes:
        plan: The model before and after the transforms, on the device that it was recorded on.
        device: The device that it was recorded on.
        names: Names of the swept quantities.
        table: One row per device: the quantities, ``latency_s`` (the makespan), ``low_s`` and ``high_s`` (its
            bounds), and ``speedup`` over the recorded model.
        assumptions: Assumptions made on the last of the devices.
    """

    plan: Plan
    device: Device
    names: tuple[str, ...]
    table: pd.DataFrame
    assumptions: tuple[str, ...]

    def plot(self) -> "NotebookFigure":
        """Plot latency with its band over the first quantity, with one line per value of the second."""
        return plot_swept(self.table, self.names, f"{self.plan.name} on {self.device.name}, changed")

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the command writes as JSON."""
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
    """Predict the time of a model if its device had other quantities.

    Args:
        model: A trace of PyTorch's profiler, your own JSON graph, or a graph.
        device: Device that the model was recorded on, or its name.
        sweeps: Quantities to sweep, such as ``sms=64:256:16``: one or two.
        what_if: Transforms to apply first, as for ``plan``.
        within: See ``plan``.
        measured_s: See ``plan``.
        sms: See ``plan``.
        latencies: See ``plan``.

    Raises:
        CostModelError: If ``plan`` raises it, or a sweep is invalid, see ``Sweep`` and ``sweep_devices``.
    """
    recorded = find_device(device) if isinstance(device, str) else device
    first = parse_what_if(what_if, latencies) if isinstance(what_if, str) else list(what_if)
    chosen = [Sweep.parse(each) if isinstance(each, str) else each for each in sweeps]
    changes, made = zip(*sweep_devices(recorded, chosen), strict=True)
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
