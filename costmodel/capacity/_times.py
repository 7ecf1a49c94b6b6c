"""How long the stages of tuning take, as they were measured."""

from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.errors import CostModelError, did_you_mean

_SHIPPED = "times"


class StageTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Measured seconds of each stage of tuning. A simulation draws from these and invents none.

    Attributes:
        source: Where and how the times were measured.
        build_s: Seconds of a builder core per kernel, with all cores of its machine busy.
        measure_s: Seconds of a device per kernel, loading and checking included.
        propose_s: Seconds in which a tune learns from a batch and proposes another.
        start_s: Seconds until a tune proposes its first batch.
        engine_s: Seconds of the engine per job. It handles one job at a time.
        lane_slowdown: By number of kernels measured at once on one device, the latency of a kernel divided by
            its latency alone.
    """

    source: str
    build_s: tuple[float, ...]
    measure_s: tuple[float, ...]
    propose_s: tuple[float, ...] = (0.0,)
    start_s: tuple[float, ...] = (0.0,)
    engine_s: tuple[float, ...] = (0.0,)
    lane_slowdown: dict[int, float] = {}

    def __post_init__(self) -> None:
        """Check what the types cannot say, also when a file is decoded."""
        for name in ("build_s", "measure_s", "propose_s", "start_s", "engine_s"):
            seconds: tuple[float, ...] = getattr(self, name)
            if not seconds or not all(isfinite(each) and each >= 0.0 for each in seconds):
                raise ValueError(f"{name} must be one or more finite numbers of at least 0")
        if not all(lanes > 1 and slowdown >= 1.0 for lanes, slowdown in self.lane_slowdown.items()):
            raise ValueError(f"lane_slowdown must be 1 or more for 2 lanes or more, got {self.lane_slowdown}")

    def slowdown(self, lanes: int) -> float:
        """Return the slowdown of a kernel next to those in the other lanes of its device.

        Raises:
            CostModelError: If it was not measured.
        """
        known = {1: 1.0, **self.lane_slowdown}
        if lanes not in known:
            raise CostModelError(
                f"Lanes of a device must be a number that was measured, {sorted(known)}, but got {lanes}. "
                "Measure how much kernels slow each other down, and add it to lane_slowdown."
            )
        return known[lanes]

    def per_second(self, builders: int, gpus: int, lanes: int = 1) -> dict[str, float]:
        """Return each part's maximum kernels per second, by its name; infinite if it takes no time."""
        parts: dict[str, tuple[float, Any]] = {
            "builders": (builders, self.build_s),
            "GPUs": (gpus * lanes / self.slowdown(lanes), self.measure_s),
            "engine": (1, self.engine_s),
        }
        means = {name: (count, float(np.mean(seconds))) for name, (count, seconds) in parts.items()}
        return {name: count / mean if mean else float("inf") for name, (count, mean) in means.items()}


def load_times(file: Path | str) -> StageTimes:
    """Load times from the path of a JSON file, or by the name of shipped times: ``h100`` or ``cpu``.

    Raises:
        CostModelError: If there is no such file, or it does not contain times.
    """
    folder = files("costmodel.capacity") / _SHIPPED
    shipped = {Path(each.name).stem: each for each in folder.iterdir()}
    found = shipped.get(str(file)) or Path(file)
    if not found.is_file():
        raise CostModelError(
            f"Times must be a JSON file, or one of {', '.join(sorted(shipped))}, but there is no {file}."
            f"{did_you_mean(str(file), shipped)}"
        )
    try:
        return msgspec.json.decode(found.read_bytes(), type=StageTimes)
    except msgspec.MsgspecError as error:
        raise CostModelError(f"{file} must hold measured times, but it does not: {error}.") from error


def drawn(seconds: tuple[float, ...], count: int, rng: np.random.Generator) -> list[float]:
    """So many of the measured seconds, drawn with replacement."""
    return [float(each) for each in rng.choice(seconds, count)]
