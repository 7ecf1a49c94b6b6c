"""The best kernel on one hypothetical device after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device
from costmodel.records._sweep import Sweep, swept_devices
from costmodel.records._workload import Workload
from costmodel.transfer.hardware._swept import draw_swept
from costmodel.transfer.prediction._candidates import Kernels, kernels_to_predict
from costmodel.transfer.prediction._devices import device_named

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.report._figures import Picture
    from costmodel.transfer.prediction._model import Model


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

    def plot(self) -> "Picture":
        """Latency of the best kernel, with its interval, over the first quantity; a line for each second."""
        return draw_swept(self.table, self.names, f"{self.workload} on {self.device.name}, changed")

    def to_dict(self) -> dict[str, Any]:
        """What the command writes as JSON."""
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
        CostModelError: As of ``Model.predict``, or a sweep is wrong, see ``Sweep`` and ``swept_devices``.
    """
    import pandas as pd

    base = device if isinstance(device, Device) else device_named(device, model.metadata.devices)
    chosen = [Sweep.parse(each) if isinstance(each, str) else each for each in sweeps]
    names = tuple(each.name for each in chosen)
    made: list[tuple[dict[str, float], HypotheticalDevice]] = list(swept_devices(base, chosen))
    candidates = kernels_to_predict(workload, base, kernels, n, seed)
    ranked = [
        model.predict(candidates, device=each).drop(columns="sms").assign(**changes) for changes, each in made
    ]
    every = pd.concat(ranked, ignore_index=True)
    columns = [*names, *(name for name in every if name not in names)]
    return SweptKernels(candidates[0].workload.name, base, names, every[columns])
