"""Models in files: one zip of JSON and arrays, without pickle.

``model.json`` holds format version, class, settings, state and metadata. Arrays and bytes of the state are
members of their own, which the JSON names: ``{"$array": "3.npy"}`` or ``{"$bytes": "4.bin"}``. Reading runs
no code from the file: classes are looked up among those that are registered, they check what they take over
(``StoredState``), and a row is tried before a model is given out. So bytes that were altered end in an error,
or in numbers, and not in native code that follows them out of its memory. Members are read within a limit, so
that a file which would fill the memory is refused.
"""

import io
import json
import platform
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.opening import open_file
from costmodel.reading import exists, say_near
from costmodel.records._platform import Device
from costmodel.transfer._base import StorableModel
from costmodel.transfer._serialised import build, describe_class, flatten_state, unflatten_state
from costmodel.version import __version__

# Packages of which another version may learn something else.
_LEARN = ("numpy", "scipy", "sklearn", "xgboost", "torch")


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Training data and accuracy of a model; fields are empty if unknown.

    Attributes:
        learner: Name of the learner, such as ``kernel-ridge+intervals``.
        seed: Seed of the learner's random choices.
        dataset: Name of the training dataset.
        dataset_sha256: Hash of the dataset's file.
        devices: Devices that the model learned from.
        platforms: Names of the platforms that it learned from: device, isolation mechanism, SMs granted.
        workloads: Names of the workloads that it learned from.
        held_out: Names of the held-out workloads that it was evaluated on.
        folds: Groups of workloads in cross-validation; each was held out from a model like this one.
        tasks: Number of tasks that the model learned from.
        rows: Number of measured (candidate, platform) pairs that it learned from.
        columns: Names of the feature columns that the model expects, in order.
        metrics: Metrics on the held-out tasks, by name: mean Score@k, median latency error, and coverage and
            median width of the intervals.
        versions: Versions of this package, of Python, and of the packages that the learner uses.
    """

    learner: str = ""
    seed: int = 0
    dataset: str = ""
    dataset_sha256: str = ""
    devices: tuple[Device, ...] = ()
    platforms: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    held_out: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    tasks: int = 0
    rows: int = 0
    columns: tuple[str, ...] = ()
    metrics: dict[str, float] = {}
    versions: dict[str, str] = {}


def software_versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the loaded learning packages."""
    loaded = {name: str(module.__version__) for name in _LEARN if (module := sys.modules.get(name))}
    return {"costmodel": __version__, "python": platform.python_version(), **loaded}


# Thirty times the largest model that learns from sm-budgets.
MOST_BYTES = 2**30


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write members, compressed. A file that is there is replaced at once.

    Raises:
        CostModelError: The file cannot be written.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    write_whole(path, buffer.getvalue())


def read_archive(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """All members.

    What is unpacked is bounded by the sizes that the file declares, and these by ``most_bytes``: zipfile
    reads no member further than its declared size, and finds by its checksum that it was cut.

    Args:
        path: The file.
        most_bytes: Most bytes of all members together, unpacked.

    Raises:
        CostModelError: The members are larger.
        zipfile.BadZipFile: The file is damaged, or is no zip file.
    """
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check(path, sum(entry.file_size for entry in entries), most_bytes)
        return {entry.filename: archive.read(entry) for entry in entries}


def read_member(path: Path, name: str, most_bytes: int = MOST_BYTES) -> bytes:
    """One member; errors are those of ``read_archive``, and KeyError where there is none of this name."""
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(name)
        _check(path, entry.file_size, most_bytes)
        return archive.read(entry)


def _check(path: Path, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise CostModelError(
            f"A model must unpack to at most {most_bytes:,} bytes, but {path} has {size:,}. If you know who "
            "wrote it, `load_model(path, most_bytes=...)` loads larger ones."
        )


FORMAT = "costmodel-model"
FORMAT_VERSION = 3

_DOCUMENT = "model.json"


@dataclass(frozen=True)
class StoredModel:
    """Contents of a model file.

    Attributes:
        model: The model, fitted.
        metadata: Where it comes from.
        attachments: By name, arrays, numbers and texts, or mappings of them, that are kept beside it.
    """

    model: StorableModel
    metadata: ModelMetadata
    attachments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelCard:
    """Description of a model in its file, read without its arrays.

    Attributes:
        model: Class and settings; models and learners inside are described the same way, as ``$model``.
        metadata: Where it comes from.
        bytes: Size of the file.
    """

    model: dict[str, Any]
    metadata: ModelMetadata
    bytes: int


def write_model(stored: StoredModel, path: Path) -> None:
    """Write a fitted model. A file that is there is replaced at once: a killed process leaves the old one.

    Raises:
        CostModelError: The model or a part of it is of a class that is not registered, or the file cannot be
            written.
    """
    members: dict[str, bytes] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": describe_class(stored.model),
        "state": flatten_state(stored.model.state(), members),
        "metadata": msgspec.to_builtins(stored.metadata),
        "attachments": flatten_state(stored.attachments, members),
    }
    members[_DOCUMENT] = json.dumps(document, indent=1).encode()
    write_archive(path, members)


def read_model(path: Path, most_bytes: int = MOST_BYTES) -> StoredModel:
    """Read a model that ``write_model`` wrote.

    Args:
        path: The file.
        most_bytes: Most bytes that it may unpack to.

    Raises:
        CostModelError: There is no such file, it is damaged or too large, it is no model of a version that is
            understood, or its learner is not installed.
    """
    with _readable(path):
        members = read_archive(path, most_bytes)
        document = _checked(members[_DOCUMENT], path)
        model = build(document["model"]).load_state(unflatten_state(document["state"], members))
        metadata = _metadata(document)
        _try_out(model, len(metadata.columns))
        return StoredModel(model, metadata, unflatten_state(document["attachments"], members))


def read_card(path: Path) -> ModelCard:
    """Read what a model's file says of it; nothing is built from it.

    Raises:
        CostModelError: As ``read_model``.
    """
    with _readable(path):
        document = _checked(read_member(path, _DOCUMENT), path)
        _check_description(document["model"])
        return ModelCard(document["model"], _metadata(document), path.stat().st_size)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read, or is damaged, what to do about it.

    Damage can raise anything: in the archive, in JSON, and in classes that take over a state that is not
    theirs.
    """
    try:
        yield
    except CostModelError:
        raise
    except OSError as error:
        near = f"{say_near(path)} `costmodel train --out FILE` writes one." if not exists(path) else ""
        raise CostModelError(f"Cannot read the model {path}: {error.strerror}.{near}") from error
    except Exception as error:
        reason = " ".join(f"{error}".split()) or type(error).__name__
        raise CostModelError(
            f"{path} must be a model written by `costmodel train`, but it is damaged or something else "
            f"({reason[:200]}). Train it again."
        ) from error


class _Description(msgspec.Struct):
    name: str = msgspec.field(name="class")
    settings: dict[str, Any] = msgspec.field()


def _check_description(description: Any) -> None:
    """Check that a class and settings are described, and so those of each model inside."""
    for value in msgspec.convert(description, _Description).settings.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                _check_description(part["$model"])


def _checked(content: bytes, path: Path) -> dict[str, Any]:
    """The document, if it is of the version that is understood."""
    document: dict[str, Any] = json.loads(content)
    if document["format"] != FORMAT:
        raise ValueError(f"format is {document['format']!r}")
    if document["format_version"] != FORMAT_VERSION:
        raise CostModelError(
            f"{path} must have format version {FORMAT_VERSION}, but has {document['format_version']}. "
            "Use the version of costmodel that wrote it, or train it again."
        )
    return document


def _try_out(model: StorableModel, width: int) -> None:
    """Predict a row before and after a measurement: a setting that does not fit the state raises here."""
    if width:  # of a model that was saved without its columns their number is unknown
        row = np.zeros((1, width))
        with np.errstate(all="ignore"):
            model.predict(row)
            model.adapt(row, np.array([1e-5])).predict(row)


def _metadata(document: dict[str, Any]) -> ModelMetadata:
    return msgspec.convert(document["metadata"], ModelMetadata)
