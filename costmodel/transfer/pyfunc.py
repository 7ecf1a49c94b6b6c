"""A model file for MLflow: ``mlflow.pyfunc.load_model`` finds ``_load_pyfunc`` by the name of this module.

What is predicted from is a frame with one kernel a row: ``candidate``, JSON of a ``Candidate`` as in the
files that ``costmodel model predict`` reads; ``device``, a name that ``costmodel devices list`` shows or JSON
of a ``Device``; ``sms``, the SMs that the kernel will have. ``kernel_frame`` makes one. What is predicted is
in ``OUTPUTS``: ``score`` (higher is faster), seconds ``latency_s`` with their interval from ``low_s`` to
``high_s``, and ``unfamiliarity`` (above 1: nothing is promised); NaN where the model tells none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.learners import FloatArray
from costmodel.records import Candidate, Device, Platform, find_device
from costmodel.tracking import ColumnType
from costmodel.transfer._store import LoadedModel, load_model

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

INPUTS: dict[str, ColumnType] = {"candidate": "string", "device": "string", "sms": "long"}
OUTPUTS: dict[str, ColumnType] = dict.fromkeys(
    ("score", "latency_s", "low_s", "high_s", "unfamiliarity"), "double"
)


def kernel_frame(candidates: Sequence[Candidate], device: Device, sms: int) -> "pd.DataFrame":
    """What a model predicts from: these kernels on so many SMs of a device."""
    import pandas as pd

    lines = [msgspec.json.encode(candidate).decode() for candidate in candidates]
    return pd.DataFrame({"candidate": lines, "device": _written(device), "sms": sms}, columns=list(INPUTS))


@dataclass(frozen=True)
class PredictsFromFrame:
    """A model file behind the interface of MLflow.

    Attributes:
        loaded: The model.
    """

    loaded: LoadedModel

    def predict(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Predict for the kernel in each row.

        Args:
            frame: See the top of this module.

        Raises:
            CostModelError: A row cannot be read, or the model is of other feature columns.
        """
        import pandas as pd

        X = _features(frame, self.loaded.metadata.get("columns"))
        found = self.loaded.model.predict(X)
        tells = getattr(self.loaded.model, "unfamiliarity", None)
        unfamiliarity = None if tells is None else tells(X)
        values = (found.score, found.latency_s, found.low_s, found.high_s, unfamiliarity)
        columns = [np.full(len(frame), np.nan) if each is None else each for each in values]
        return pd.DataFrame(dict(zip(OUTPUTS, columns, strict=True)), index=frame.index)


def _load_pyfunc(path: str) -> PredictsFromFrame:
    """The model in a file; called by MLflow."""
    return PredictsFromFrame(load_model(Path(path)))


def _features(frame: "pd.DataFrame", columns: Sequence[str] | None) -> FloatArray:
    """``(n, d)`` features of the kernels, if these are the columns of the model.

    Raises:
        CostModelError: They are others.
    """
    candidates = {text: _candidate(text) for text in frame["candidate"].unique()}
    places = list(zip(frame["device"], frame["sms"], strict=True))
    platforms = {place: _platform(*place) for place in dict.fromkeys(places)}
    table = extract([candidates[text] for text in frame["candidate"]], [platforms[each] for each in places])
    names = [column.name for column in table.columns]
    if columns != names:
        raise CostModelError(
            f"The model must be one of the {len(names)} feature columns of these kernels, but it is of "
            "others. Train it on such kernels, with this version of costmodel."
        )
    return table.values


def _candidate(text: str) -> Candidate:
    return _decoded(text, Candidate, "JSON of a candidate, with `workload`, `space` and `config`")


def _platform(device: str, sms: int) -> Platform:
    """So many SMs of a device that is named, or written out."""
    known = _decoded(device, Device, "JSON of a device") if device.startswith("{") else find_device(device)
    if sms < 1 or (known.sms and sms > known.sms):
        raise CostModelError(f"sms must be 1 to the {known.sms} SMs of {known.name}, but got {sms}.")
    return Platform(known, "whole" if sms == known.sms else "green_context", int(sms), int(sms))


def _written(device: Device) -> str:
    """A device by its name where that tells all of it, else as JSON."""
    try:
        if find_device(device.name) == device:
            return device.name
    except CostModelError:
        pass
    return msgspec.json.encode(device).decode()


def _decoded(text: str, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise CostModelError(f"A row must hold {what}, but got {text[:60]!r}: {error}.") from error
