"""Models in files: one zip of JSON and arrays, without pickle.

``model.json`` holds format version, class, settings, state and metadata. Arrays and bytes of the state are
members of their own, which the JSON names: ``{"$array": "3.npy"}`` or ``{"$bytes": "4.bin"}``. Reading runs
no code from the file: classes are looked up among those of this package.
"""

import inspect
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from costmodel.errors import CostModelError
from costmodel.learners import (
    KernelRidge,
    Learner,
    NearestTask,
    RandomLearner,
    RidgeLearner,
    ScaledFromWhole,
    WeightedConsensus,
    XGBoostLearner,
)
from costmodel.transfer._base import TransferModel
from costmodel.transfer._residual import Residual
from costmodel.transfer._ridge_on_sources import RidgeOnSources

FORMAT = "costmodel-model"
FORMAT_VERSION = 1

Storable: TypeAlias = Residual | RidgeOnSources

_CLASSES: dict[str, type[Storable | Learner]] = {
    cls.__name__: cls
    for cls in (
        KernelRidge,
        NearestTask,
        RandomLearner,
        Residual,
        RidgeLearner,
        RidgeOnSources,
        ScaledFromWhole,
        WeightedConsensus,
        XGBoostLearner,
    )
}


# What reading raises when bytes are not those that were written: RuntimeError for a member marked as
# encrypted, NotImplementedError, which it includes, for an unknown compression.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    AttributeError,
    KeyError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class LoadedModel:
    """A model out of a file.

    Attributes:
        model: The model, fitted.
        metadata: What was saved with it, such as the dataset's hash, the training workloads and versions.
    """

    model: TransferModel
    metadata: dict[str, Any]


def save_model(model: TransferModel, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a fitted model. A file that is there is replaced at once: a killed process leaves the old one.

    Args:
        model: A transfer model of this package with a learner of this package.
        path: File to write.
        metadata: JSON values to keep with it.

    Raises:
        TypeError: The model or its learner is of another class.
        CostModelError: The file cannot be written.
    """
    if not isinstance(model, Storable):
        raise TypeError(f"a model to save must be Residual or RidgeOnSources, but got {type(model).__name__}")
    members: dict[str, bytes] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": _describe(model),
        "state": _flatten(model.state(), members),
        "metadata": dict(metadata),
    }
    members["model.json"] = json.dumps(document, indent=1).encode()
    try:
        _write_zip(path, members)
    except OSError as error:
        raise CostModelError(f"Cannot write the model {path}: {error.strerror}.") from error


def load_model(path: Path) -> LoadedModel:
    """Read a model that ``save_model`` wrote.

    Raises:
        CostModelError: There is no such file, it is damaged, or it is no model of a version that is
            understood.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        document = json.loads(members["model.json"])
        _check_format(document, path)
        model = _restore(document["model"], _unflatten(document["state"], members))
    except OSError as error:
        raise CostModelError(f"Cannot read the model {path}: {error.strerror}.") from error
    except _DAMAGE as error:
        raise CostModelError(
            f"{path} must be a model written by `costmodel train`, but it is damaged or something else "
            f"({error}). Train it again."
        ) from error
    return LoadedModel(model, document["metadata"])


def _check_format(document: dict[str, Any], path: Path) -> None:
    if document["format"] != FORMAT:
        raise ValueError(f"format is {document['format']!r}")
    if document["format_version"] != FORMAT_VERSION:
        raise CostModelError(
            f"{path} must have format version {FORMAT_VERSION}, but has {document['format_version']}. "
            "Use the version of costmodel that wrote it, or train it again."
        )


def _restore(description: dict[str, Any], state: dict[str, Any]) -> Storable:
    model = _build(description)
    if not isinstance(model, Storable):
        raise TypeError(f"{type(model).__name__} is no transfer model")
    return model.load_state(state)


def _describe(model: Storable | Learner) -> dict[str, Any]:
    """Class name and settings; a setting that is itself a learner is described the same way."""
    if _CLASSES.get(type(model).__name__) is not type(model):
        raise TypeError(
            f"a learner to save must be one of {sorted(_CLASSES)}, but got {type(model).__name__}"
        )
    names = inspect.signature(type(model)).parameters
    settings = {name: getattr(model, name) for name in names}
    described = {
        name: {"$model": _describe(value)} if isinstance(value, Learner) else value
        for name, value in settings.items()
    }
    return {"class": type(model).__name__, "settings": described}


def _build(description: dict[str, Any]) -> Storable | Learner:
    """An unfitted model; the inverse of ``_describe``."""
    settings = {name: _setting(value) for name, value in description["settings"].items()}
    return _CLASSES[description["class"]](**settings)


def _setting(value: Any) -> Any:
    if isinstance(value, dict):
        return _build(value["$model"])
    return tuple(value) if isinstance(value, list) else value


def _flatten(value: Any, members: dict[str, bytes]) -> Any:
    """JSON for a state; its arrays and bytes become members."""
    if isinstance(value, dict):
        return {name: _flatten(item, members) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return {"$array": _add(members, buffer.getvalue(), "npy")}
    if isinstance(value, bytes):
        return {"$bytes": _add(members, value, "bin")}
    return value


def _unflatten(value: Any, members: dict[str, bytes]) -> Any:
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return np.load(io.BytesIO(members[value["$array"]]), allow_pickle=False)
    if "$bytes" in value:
        return members[value["$bytes"]]
    return {name: _unflatten(item, members) for name, item in value.items()}


def _add(members: dict[str, bytes], content: bytes, suffix: str) -> str:
    name = f"{len(members)}.{suffix}"
    members[name] = content
    return name


def _write_zip(path: Path, members: Mapping[str, bytes]) -> None:
    """Write beside the file, then rename over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
