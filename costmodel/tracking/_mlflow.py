"""Runs in MLflow."""

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from filelock import FileLock

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.files import behind_link, check_writable
from costmodel.liveness import user_name
from costmodel.reading import is_file, refusing
from costmodel.tracking._base import DatasetRead, RunRecord, RunStatus
from costmodel.tracking._describe import COMMAND, COMMIT
from costmodel.tracking._items import DatasetUsed, Metric, ModelFile, Note, Parameter, Tag, Value
from costmodel.tracking._uri import artifact_folder, resolve_tracking_uri, sqlite_file

# Tags that MLflow's pages show in a place of their own, if they have its names.
KNOWN_AS = {COMMAND: "mlflow.source.name", COMMIT: "mlflow.source.git.commit"}
NOTE, PARENT = "mlflow.note.content", "mlflow.parentRunId"


T = TypeVar("T")

# What its pages then show: runs of training with their charts, not traces of language models.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
_NO_NAME = re.compile(r"[^/\w.\- :]")
_MOST_CHARACTERS = 250
# Most parameters or tags, and most metrics, that MLflow takes at once.
_BATCH, _METRIC_BATCH = 100, 900
# Digits of a dataset's hash that are shown; a database column of MLflow holds 36.
_DIGEST = 12


class MlflowTracker:
    """Stores runs in MLflow: in a SQLite file with a folder next to it, in another database, or on a server.

    Args:
        uri: As for ``resolve_tracking_uri``, which also gives the default.

    Raises:
        CostModelError: If MLflow is not installed, or the place cannot be used.
    """

    def __init__(self, uri: str | None = None) -> None:
        self.uri = resolve_tracking_uri(uri)
        self._mlflow = _import_mlflow()
        with _alone(sqlite_file(self.uri)):
            self._client = self._try(self._mlflow.MlflowClient, self.uri)
            self._try(self._client.search_experiments, max_results=1)

    @classmethod
    def open_existing(cls, uri: str | None = None) -> Self:
        """Open a tracker only if it exists already.

        Raises:
            CostModelError: If the class raises it, or nothing has been stored there.
        """
        file = sqlite_file(resolve_tracking_uri(uri))
        if file and not is_file(file):
            raise CostModelError(
                f"Tracked runs must be at {file}, but nothing is there. Track one, as with "
                "`costmodel evaluate --track`, or name another place with --tracking-uri."
            )
        return cls(uri)

    def start(self, name: str, experiment: str, parent_id: str | None = None) -> str:
        """Start a run; see ``Tracker``."""
        # Of a source of this type MLflow's pages show all of the command, of a local one what follows its
        # last slash.
        tags = {"mlflow.user": user_name(), "mlflow.source.type": "JOB"}
        if parent_id:
            tags[PARENT] = parent_id
        experiment_id = self._experiment_id(experiment)
        run = self._try(self._client.create_run, experiment_id, tags=tags, run_name=name)
        return str(run.info.run_id)

    def log_values(self, run_id: str, values: Sequence[Value]) -> None:
        """Store values; see ``Tracker``. Names that MLflow does not allow are altered, see ``_name``."""
        entities, now_ms = self._mlflow.entities, int(1000 * time.time())
        metrics = [
            entities.Metric(_name(v.name), float(v.value), now_ms, v.step)
            for v in values
            if isinstance(v, Metric)
        ]
        settings = [entities.Param(_name(v.name), str(v.value)) for v in values if isinstance(v, Parameter)]
        tags = [entities.RunTag(name, text) for name, text in _tags(values)]
        for part in _parts(metrics, _METRIC_BATCH):
            self._try(self._client.log_batch, run_id, metrics=part)
        for part in _parts(settings, _BATCH):
            self._try(self._client.log_batch, run_id, params=part)
        for part in _parts(tags, _BATCH):
            self._try(self._client.log_batch, run_id, tags=part)

    def log_file(self, run_id: str, folder: str, file: Path) -> None:
        """Store a copy of a file; see ``Tracker``."""
        self._try(self._client.log_artifact, run_id, str(file), folder or None)

    def log_dataset(self, run_id: str, used: DatasetUsed) -> None:
        """Store the dataset that was used as an MLflow dataset, and its full hash as a tag."""
        entities = self._mlflow.entities
        columns = [_column(name, kind) for name, kind in used.schema.items()]
        dataset = entities.Dataset(
            name=used.name,
            digest=used.sha256[:_DIGEST],
            source_type="local",
            source=json.dumps({"uri": str(used.source.resolve()) if used.source else ""}),
            schema=json.dumps({"mlflow_colspec": columns}),
            profile=json.dumps(used.profile),
        )
        context = entities.InputTag("mlflow.data.context", used.context)
        inputs = [entities.DatasetInput(dataset, [context])]
        self._try(self._client.log_inputs, run_id, inputs)
        self.log_values(run_id, [Tag(f"dataset.{used.name}.sha256", used.sha256)])

    def log_model(self, run_id: str, model: ModelFile) -> None:
        """Store a model that ``mlflow.pyfunc.load_model`` loads with our loader; nothing is pickled."""
        from mlflow import pyfunc
        from mlflow.models import Model, ModelSignature
        from mlflow.types import ColSpec, Schema

        inputs, outputs = (
            Schema([ColSpec(kind, name) for name, kind in columns.items()])
            for columns in (model.inputs, model.outputs)
        )
        run = self._try(self._client.get_run, run_id)
        kept = self._try(
            self._client.create_logged_model,
            run.info.experiment_id,
            name="model",
            source_run_id=run_id,
            params=run.data.params,
            model_type=model.file.suffix.removeprefix("."),
        )
        with self._as_default():
            self._try(
                Model.log,
                artifact_path=None,
                flavor=pyfunc,
                run_id=run_id,
                model_id=kept.model_id,
                metadata=dict(model.metadata),
                loader_module=model.loader,
                data_path=str(model.file),
                signature=ModelSignature(inputs, outputs),
                input_example=model.example,
                pip_requirements=list(model.requirements),
            )

    def end(self, run_id: str, status: RunStatus) -> None:
        """Set how a run ended; see ``Tracker``."""
        self._try(self._client.set_terminated, run_id, status.value)

    def runs(self, experiment: str | None = None, status: RunStatus | None = None) -> list[RunRecord]:
        """Return the stored runs, the newest first; see ``Tracker``."""
        names = {
            each.experiment_id: each.name
            for each in self._every_page(self._client.search_experiments)
            if experiment in (None, each.name)
        }
        if not names:
            return []
        found = self._every_page(
            self._client.search_runs,
            experiment_ids=list(names),
            filter_string=f"attributes.status = '{status.value}'" if status else "",
            order_by=["attributes.start_time DESC"],
        )
        return [self._record(run, names) for run in found]

    def page(self, run_id: str) -> str:
        """Return the path of a run's page on the server."""
        experiment_id = self._try(self._client.get_run, run_id).info.experiment_id
        return f"#/experiments/{experiment_id}/runs/{run_id}"

    def files(self, run_id: str) -> dict[str, int]:
        """Return the paths of a run's files and models, with their sizes in bytes; see ``Tracker``."""
        run = self._try(self._client.get_run, run_id)
        found = dict(_files(partial(self._client.list_artifacts, run_id)))
        for output in run.outputs.model_outputs if run.outputs else ():
            files = _files(partial(self._client.list_logged_model_artifacts, output.model_id))
            found |= {f"model/{path}": size for path, size in files}
        return found

    def _record(self, run: Any, names: Mapping[str, str]) -> RunRecord:
        with refusing(f"Run {run.info.run_id} at {self.uri}", "a run as MLflow keeps it", "Delete it there."):
            return run_record(run, names[run.info.experiment_id])

    def _experiment_id(self, name: str) -> str:
        """Id of an experiment, which is made if there is none."""
        known = self._try(self._client.get_experiment_by_name, name)
        if known is None:
            return self._make_experiment(name)
        if known.lifecycle_stage != "active":
            raise CostModelError(f"Experiment {name!r} must not be deleted, but it is: take another name.")
        return str(known.experiment_id)

    def _make_experiment(self, name: str) -> str:
        """Id of a new experiment, or of the one that another process made in this moment."""
        folder = artifact_folder(self.uri)
        place = folder.as_uri() if folder else None
        try:
            return str(self._try(self._client.create_experiment, name, artifact_location=place, tags=_KIND))
        except CostModelError:
            made = self._try(self._client.get_experiment_by_name, name)
            if made is None:
                raise
            return str(made.experiment_id)

    @contextmanager
    def _as_default(self) -> Iterator[None]:
        """Let what knows of no client write to this place."""
        before = self._mlflow.get_tracking_uri()
        self._mlflow.set_tracking_uri(self.uri)
        try:
            yield
        finally:
            self._mlflow.set_tracking_uri(before)

    def _every_page(self, search: Callable[..., Any], **settings: Any) -> Iterator[Any]:
        """What a search finds on all of its pages."""
        token = None
        while True:
            page = self._try(search, page_token=token, **settings)
            yield from page
            token = page.token
            if not token:
                return

    def _try(self, call: Callable[..., T], *arguments: Any, **settings: Any) -> T:
        """What a call of MLflow gives.

        Raises:
            CostModelError: It fails.
        """
        try:
            return call(*arguments, **settings)
        except Exception as error:  # it raises whatever its server, database and decoders do
            said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            if getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE":
                raise CostModelError(f"MLflow must be told what it allows, but: {said}.") from error
            raise CostModelError(f"MLflow at {self.uri} must answer, but: {said}.") from error


@contextmanager
def _alone(file: Path | None) -> Iterator[None]:
    """Let no other process make the tables of a SQLite file meanwhile."""
    if file is None:
        yield
        return
    check_writable(file)
    file = behind_link(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        yield


def _name(name: str) -> str:
    """Return the name as MLflow allows it: a relative path of some characters, which is not too long.

    Characters that it does not know become underscores, as do parts that are empty or dots. A long name keeps
    its beginning and ends in a hash of the whole, so that two of them stay two.
    """
    parts = _NO_NAME.sub("_", name).split("/")
    found = "/".join(part if part.strip(".") else "_" * max(1, len(part)) for part in parts)
    if len(found) <= _MOST_CHARACTERS:
        return found
    end = f"-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return found[: _MOST_CHARACTERS - len(end)] + end


def _tags(values: Sequence[Value]) -> Iterator[tuple[str, str]]:
    """Tags, some by the names by which MLflow's pages know them."""
    for value in values:
        if isinstance(value, Note):
            yield NOTE, value.text
        elif isinstance(value, Tag):
            yield KNOWN_AS.get(value.name, _name(value.name)), value.value


def _column(name: str, kind: Any) -> dict[str, Any]:
    """A column as MLflow's schemas have it."""
    return {"name": name, "required": True, **({"type": kind} if isinstance(kind, str) else kind)}


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _files(listed: Callable[[str | None], Any], folder: str | None = None) -> Iterator[tuple[str, int]]:
    """Paths and sizes of all files below a folder."""
    for entry in listed(folder):
        if entry.is_dir:
            yield from _files(listed, entry.path)
        else:
            yield entry.path, int(entry.file_size or 0)


def _import_mlflow() -> Any:
    """Import MLflow: without telemetry, and only when runs are tracked.

    Raises:
        MissingExtraError: It is not installed.
    """
    # Nothing of a run leaves this machine but to the server that was named; read when it is imported.
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    # Its own seven retries take four minutes to say that a server is not there, three take a quarter of one.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    # The command says itself where to look, once.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    try:
        import mlflow
    except ImportError as error:
        raise MissingExtraError("Tracking", "mlflow") from error
    # Its news of tables that it creates and of environment variables that it saw are none for the user.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    return mlflow


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
