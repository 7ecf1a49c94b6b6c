"""A model file for MLflow: ``mlflow.pyfunc.load_model`` finds ``_load_pyfunc`` by the name of this module.

What is predicted from is a frame with one kernel a row: ``candidate``, JSON of a ``Candidate`` as in the
files that ``costmodel model predict`` reads; ``device``, a name that ``costmodel devices list`` shows or JSON
of a ``Device``; ``sms``, the SMs that the kernel will have. ``kernel_frame`` makes one. What is predicted is
in ``OUTPUTS``: ``rank_score`` (higher is faster), seconds ``latency_s`` with their interval from ``low_s`` to
``high_s``, and ``unfamiliarity`` (above 1: nothing is promised); NaN where the model tells none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from costmodel.errors import CostModelError, shorten
from costmodel.reading import decode_json, refusing
from costmodel.records._candidate import Candidate
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device, Platform, part_of
from costmodel.tracking._items import ColumnType
from costmodel.transfer.prediction._model import Model, load_model

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

INPUTS: dict[str, ColumnType] = {"candidate": "string", "device": "string", "sms": "long"}
OUTPUTS: dict[str, ColumnType] = dict.fromkeys(
    ("rank_score", "latency_s", "low_s", "high_s", "unfamiliarity"), "double"
)


def kernel_frame(candidates: Sequence[Candidate], device: Device, sms: int) -> "pd.DataFrame":
    """Return the frame that a model predicts from: these kernels on so many SMs of a device."""
    import pandas as pd

    lines = [msgspec.json.encode(candidate).decode() for candidate in candidates]
    return pd.DataFrame({"candidate": lines, "device": _written(device), "sms": sms}, columns=list(INPUTS))


@dataclass(frozen=True)
class PredictsFromFrame:
    """A model file behind the interface of MLflow.

    Attributes:
        model: The model, out of a file.
    """

    model: Model

    def predict(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Predict for the kernel in each row.

        Args:
            frame: See the top of this module.

        Raises:
            CostModelError: A row cannot be read, or the model is of other feature columns.
        """
        import pandas as pd

        found = self.model.predictions_of(*_kernels(frame))
        return pd.DataFrame(found, index=frame.index).reindex(columns=list(OUTPUTS))


def _load_pyfunc(path: str) -> PredictsFromFrame:
    """The model in a file; called by MLflow."""
    return PredictsFromFrame(load_model(Path(path)))


def _kernels(frame: "pd.DataFrame") -> tuple[list[Candidate], list[Platform]]:
    """The kernel in each row, and where it would run; each text is read once."""
    texts, places = frame["candidate"], list(zip(frame["device"], frame["sms"], strict=True))
    candidates = {text: _candidate(text) for text in texts.unique()}
    platforms = {place: part_of(_device(place[0]), int(place[1])) for place in dict.fromkeys(places)}
    return [candidates[text] for text in texts], [platforms[place] for place in places]


def _candidate(text: str) -> Candidate:
    return _decoded(text, Candidate, "JSON of a candidate, with `workload`, `space` and `config`")


def _device(text: str) -> Device:
    """A device that is named, or written out."""
    return _decoded(text, Device, "JSON of a device") if text.startswith("{") else find_device(text)


def _written(device: Device) -> str:
    """A device by its name where that tells all of it, else as JSON."""
    try:
        if find_device(device.name) == device:
            return device.name
    except CostModelError:
        pass
    return msgspec.json.encode(device).decode()


def _decoded(text: str, kind: type[T], what: str) -> T:
    with refusing(f"A row, {shorten(repr(text), 60)},", what):
        return decode_json(text, kind)
