"""Read a run from MLflow."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from costmodel.tracking._base import DatasetRead, RunRecord, RunStatus
from costmodel.tracking._describe import COMMAND, COMMIT

T = TypeVar("T")

# Tags that MLflow's pages show in a place of their own, if they have its names.
KNOWN_AS = {COMMAND: "mlflow.source.name", COMMIT: "mlflow.source.git.commit"}
NOTE, PARENT = "mlflow.note.content", "mlflow.parentRunId"


def run_record(run: Any, experiment: str) -> RunRecord:
    """A run of MLflow as ours; names are in their natural order, 5 before 10."""
    info, tags = run.info, run.data.tags
    ours = {name: text for name, text in tags.items() if not name.startswith("mlflow.")}
    ours |= {name: tags[known] for name, known in KNOWN_AS.items() if known in tags}
    return RunRecord(
        run_id=info.run_id,
        name=info.run_name,
        experiment=experiment,
        status=RunStatus(info.status),
        started_at=_time(info.start_time),
        ended_at=None if info.end_time is None else _time(info.end_time),
        parent_id=tags.get(PARENT),
        parameters=_in_order(run.data.params),
        metrics=_in_order(run.data.metrics),
        tags=_in_order(ours),
        note=tags.get(NOTE, ""),
        datasets=[_dataset(each) for each in (run.inputs.dataset_inputs if run.inputs else ())],
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _dataset(used: Any) -> DatasetRead:
    contexts = [tag.value for tag in used.tags if tag.key == "mlflow.data.context"]
    return DatasetRead(
        name=used.dataset.name,
        digest=used.dataset.digest,
        source=json.loads(used.dataset.source).get("uri", ""),
        context=", ".join(contexts),
        profile=json.loads(used.dataset.profile or "{}"),
    )


def _in_order(values: Mapping[str, T]) -> dict[str, T]:
    return {name: values[name] for name in sorted(values, key=_natural)}


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Orders numbers in a name by what they count."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]
