"""A tracker in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from costmodel.tracking import Metric, Parameter, Tag
from costmodel.tracking._base import DatasetRead, RunRecord, RunStatus
from costmodel.tracking._items import DatasetUsed, ModelFile, Note, Value


@dataclass
class RecordedTracker:
    """Keeps everything it is given."""

    kept: dict[str, RunRecord] = field(default_factory=dict)
    file_sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    models: list[ModelFile] = field(default_factory=list)

    def start(self, name: str, experiment: str, parent_id: str | None = None) -> str:
        run_id = f"{len(self.kept):032x}"
        now = datetime.now(UTC)
        self.kept[run_id] = RunRecord(
            run_id, name, experiment, RunStatus.RUNNING, now, None, parent_id, {}, {}, {}
        )
        self.file_sizes[run_id] = {}
        return run_id

    def log_values(self, run_id: str, values: Sequence[Value]) -> None:
        run = self.kept[run_id]
        self.kept[run_id] = replace(
            run,
            parameters={
                **run.parameters,
                **{v.name: str(v.value) for v in values if isinstance(v, Parameter)},
            },
            metrics={**run.metrics, **{v.name: v.value for v in values if isinstance(v, Metric)}},
            tags={**run.tags, **{v.name: v.value for v in values if isinstance(v, Tag)}},
            note=next((v.text for v in values if isinstance(v, Note)), run.note),
        )

    def log_file(self, run_id: str, folder: str, file: Path) -> None:
        self.file_sizes[run_id][f"{folder}/{file.name}".lstrip("/")] = file.stat().st_size

    def log_dataset(self, run_id: str, used: DatasetUsed) -> None:
        read = DatasetRead(used.name, used.sha256[:12], str(used.source), used.context, used.profile)
        self.kept[run_id] = replace(self.kept[run_id], datasets=[*self.kept[run_id].datasets, read])
        self.log_values(run_id, [Tag(f"dataset.{used.name}.sha256", used.sha256)])

    def log_model(self, run_id: str, model: ModelFile) -> None:
        self.models.append(model)

    def end(self, run_id: str, status: RunStatus) -> None:
        self.kept[run_id] = replace(self.kept[run_id], status=status, ended_at=datetime.now(UTC))

    def runs(self, experiment: str | None = None, status: RunStatus | None = None) -> list[RunRecord]:
        found = [run for run in reversed(self.kept.values()) if experiment in (None, run.experiment)]
        return [run for run in found if status in (None, run.status)]

    def files(self, run_id: str) -> dict[str, int]:
        return self.file_sizes[run_id]
