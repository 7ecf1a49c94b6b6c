"""The one loop that writes what generators describe."""

import math
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath

from costmodel.tracking._base import Tracker
from costmodel.tracking._items import (
    Artifact,
    ChildRun,
    DatasetUsed,
    Item,
    Metric,
    ModelFile,
    Note,
    Parameter,
    Table,
    Tag,
    Value,
)
from costmodel.tracking._lifetime import running


def write_items(tracker: Tracker, run_id: str, experiment: str, items: Iterable[Item]) -> None:
    """Write items to a run, in order; values that follow one another are written at once.

    Args:
        tracker: Where to.
        run_id: The run.
        experiment: Name of its experiment, which runs below it belong to as well.
        items: What to write; made while it is written.
    """
    values: list[Value] = []
    for item in items:
        if isinstance(item, Parameter | Metric | Tag | Note):
            values.append(item)
            continue
        _flush(tracker, run_id, values)
        match item:
            case Artifact():
                _write_file(tracker, run_id, item)
            case Table() if len(item.frame):
                to_csv = partial(item.frame.to_csv, index=False)
                _write_file(tracker, run_id, Artifact(item.path, to_csv))
            case DatasetUsed():
                tracker.log_dataset(run_id, item)
            case ModelFile():
                tracker.log_model(run_id, item)
            case ChildRun():
                with running(tracker, item.name, experiment, run_id) as child_id:
                    write_items(tracker, child_id, experiment, item.items)
    _flush(tracker, run_id, values)


def _flush(tracker: Tracker, run_id: str, values: list[Value]) -> None:
    """Write values, but for numbers that are none, and forget them."""
    known = [value for value in values if not isinstance(value, Metric) or math.isfinite(value.value)]
    if known:
        tracker.log_values(run_id, known)
    values.clear()


def _write_file(tracker: Tracker, run_id: str, artifact: Artifact) -> None:
    place = PurePosixPath(artifact.path)
    with tempfile.TemporaryDirectory(prefix="costmodel-") as folder:
        file = Path(folder) / place.name
        artifact.write(file)
        tracker.log_file(run_id, "" if str(place.parent) == "." else str(place.parent), file)
