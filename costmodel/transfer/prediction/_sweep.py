"""The best kernel on one hypothetical device after the other, as a table and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice, Sweep, sweep_devices
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._candidates import Kernels, kernels_to_predict
from costmodel.transfer.prediction._devices import device_named

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.report._figures import NotebookFigure
    from costmodel.transfer.prediction._model import Model


# Lines that can be told apart.
_MOST_LINES = 10


def plot_swept(table: "pd.DataFrame", names: Sequence[str], title: str) -> "NotebookFigure":
    """Latency with its band over the first quantity, a line for each value of the second.

    Args:
        table: Columns ``names``, ``latency_s``, and ``low_s`` and ``high_s`` where they are known.
        names: One or two quantities.
        title: Of the picture.
    """
    from costmodel.report._figures import NotebookFigure

    figure = NotebookFigure(figsize=(7.5, 4.5), layout="constrained")
    axis = figure.subplots()
    lines = table[names[1]].unique().tolist() if len(names) > 1 else [0.0]
    for value in lines[:: -(-len(lines) // _MOST_LINES)]:
        rows = table[table[names[1]] == value] if len(names) > 1 else table
        label = f"{names[-1]} {value:g}"
        (line,) = axis.plot(rows[names[0]], rows["latency_s"] * 1e6, marker=".", label=label)
        if "low_s" in rows:
            low, high = rows["low_s"] * 1e6, rows["high_s"] * 1e6
            axis.fill_between(rows[names[0]], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set_xlabel(names[0])
    axis.set_ylabel("latency, us")
    axis.set_ylim(bottom=0)
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    if len(names) > 1:
        axis.legend(frameon=False, fontsize=8)
    return figure


@dataclass(frozen=True)
class SweptKernels:
    """Kernels of a workload on hypothetical devices.

    Attributes:
        workload: Its name.
        device: The device that they were made of.
        names: The quantities that are swept.
        kernels: A row for each device and kernel, the best first on each device: the quantities, and the
            columns of ``Model.predict``.
    """

    workload: str
    device: Device
    names: tuple[str, ...]
    kernels: "pd.DataFrame"

    @property
    def table(self) -> "pd.DataFrame":
        """The best kernel on each device."""
        return self.kernels.drop_duplicates(list(self.names), ignore_index=True)

    def plot(self) -> "NotebookFigure":
        """Latency of the best kernel, with its interval, over the first quantity; a line for each second."""
        return plot_swept(self.table, self.names, f"{self.workload} on {self.device.name}, changed")

    def to_dict(self) -> dict[str, Any]:
        """Return what the command writes as JSON."""
        return {
            "workload": self.workload,
            "device": self.device.name,
            "devices": self.table.to_dict(orient="records"),
        }


def sweep_kernels(  # noqa: PLR0913 (settings, most with defaults)
    model: "Model",
    workload: Workload | str | Sequence[Candidate],
    sweeps: Sequence[Sweep | str],
    *,
    device: Device | str | None = None,
    kernels: Kernels | None = None,
    n: int = 64,
    seed: int = 0,
) -> SweptKernels:
    """Rank kernels on devices that are others in one quantity or two.

    Args:
        model: Predicts latencies.
        workload: What the kernels compute, or the kernels themselves.
        sweeps: What is swept, such as ``sms=64:256:16``.
        device: What the devices are made of; see ``Model.predict``.
        kernels: See ``Model.predict``.
        n: See there.
        seed: See there.

    Raises:
        CostModelError: As of ``Model.predict``, or a sweep is wrong, see ``Sweep`` and ``sweep_devices``.
    """
    import pandas as pd

    base = device if isinstance(device, Device) else device_named(device, model.metadata.devices)
    chosen = [Sweep.parse(each) if isinstance(each, str) else each for each in sweeps]
    names = tuple(each.name for each in chosen)
    made: list[tuple[dict[str, float], HypotheticalDevice]] = list(sweep_devices(base, chosen))
    candidates = kernels_to_predict(workload, base, kernels, n, seed)
    ranked = [
        model.predict(candidates, device=each).drop(columns="sms").assign(**changes) for changes, each in made
    ]
    every = pd.concat(ranked, ignore_index=True)
    columns = [*names, *(name for name in every if name not in names)]
    return SweptKernels(candidates[0].workload.name, base, names, every[columns])
