"""Models in files: one zip of JSON and arrays, without pickle.

``model.json`` holds format version, class, settings, state and metadata. Arrays and bytes of the state are
members of their own, which the JSON names: ``{"$array": "3.npy"}`` or ``{"$bytes": "4.bin"}``. Reading runs
no code from the file: classes are looked up among those of this package.
"""

import inspect
import io
import json
import platform
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.features import Column, extract
from costmodel.files import write_whole
from costmodel.learners import (
    AnalyticPrior,
    KernelRidge,
    Learner,
    MultitaskGaussianProcess,
    MultitaskNetwork,
    NearestTask,
    RandomForestLearner,
    RandomLearner,
    RidgeLearner,
    ScaledFromWhole,
    Stack,
    WeightedConsensus,
    XGBoostLearner,
    XGBoostRanker,
)
from costmodel.records import Candidate, Platform
from costmodel.transfer._base import StorableModel, TransferModel
from costmodel.transfer.models import (
    FromScratch,
    PooledMultitask,
    PredictedOptimum,
    Residual,
    RidgeOnSources,
    SimilarSources,
    SourceMixture,
)
from costmodel.transfer.wrappers import Conformal, Guarded
from costmodel.version import __version__

FORMAT = "costmodel-model"
FORMAT_VERSION = 2

_CLASSES: dict[str, type[StorableModel | Learner]] = {
    cls.__name__: cls
    for cls in (
        Conformal,
        FromScratch,
        Guarded,
        PooledMultitask,
        AnalyticPrior,
        KernelRidge,
        MultitaskGaussianProcess,
        MultitaskNetwork,
        NearestTask,
        PredictedOptimum,
        RandomForestLearner,
        RandomLearner,
        Residual,
        RidgeLearner,
        RidgeOnSources,
        SimilarSources,
        SourceMixture,
        Stack,
        ScaledFromWhole,
        WeightedConsensus,
        XGBoostLearner,
        XGBoostRanker,
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
        metadata: What was saved with it, such as the dataset's hash and the training workloads.
        versions: Of costmodel, Python and NumPy, as of writing; empty for a file written before these were
            kept.
        path: The file.
    """

    model: StorableModel
    metadata: dict[str, Any]
    versions: dict[str, str]
    path: Path

    def features(self, candidates: Sequence[Candidate], platforms: Sequence[Platform]) -> FloatArray:
        """``(n, d)`` features of kernels, each on the platform at its place, for the model to predict from.

        Raises:
            CostModelError: The model is of other feature columns than these kernels have.
        """
        table = extract(candidates, platforms)
        self.require_columns(table.columns)
        return table.values

    def require_columns(self, columns: Sequence[Column]) -> None:
        """Refuse a model that was not trained on these feature columns.

        Raises:
            CostModelError: It was not.
        """
        if self.metadata.get("columns") != [column.name for column in columns]:
            raise CostModelError(
                f"{self.path} must be a model of the {len(columns)} feature columns that this version of "
                "costmodel makes of these kernels, but it is of others. Train it again on such kernels, with "
                "`costmodel train`."
            )

    def unfamiliarity(self, X: FloatArray) -> FloatArray | None:
        """``(n,)`` how unlike all that the model learned from each row is; nothing is promised above 1.

        None for a model that does not tell.
        """
        tells = getattr(self.model, "unfamiliarity", None)
        return None if tells is None else tells(X)


@dataclass(frozen=True)
class ModelCard:
    """What a file says of its model, read without its arrays.

    Attributes:
        model: Class and settings; models and learners inside are described the same way, as ``$model``.
        metadata: As in ``LoadedModel``, but with the names of members in the place of arrays.
        versions: As in ``LoadedModel``.
        bytes: Size of the file.
    """

    model: dict[str, Any]
    metadata: dict[str, Any]
    versions: dict[str, str]
    bytes: int


def save_model(model: TransferModel, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a fitted model. A file that is there is replaced at once: a killed process leaves the old one.

    Args:
        model: A transfer model of this package with a learner of this package.
        path: File to write.
        metadata: JSON values to keep with it, and arrays.

    Raises:
        TypeError: The model or its learner is of another class.
        CostModelError: The file cannot be written.
    """
    if not isinstance(model, StorableModel):
        raise TypeError(f"a model to save must be a StorableModel, but got {type(model).__name__}")
    members: dict[str, bytes] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": _describe(model),
        "state": _flatten(model.state(), members),
        "metadata": _flatten(dict(metadata), members),
        "versions": {
            "costmodel": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }
    members["model.json"] = json.dumps(document, indent=1).encode()
    write_whole(path, _zipped(members))


def load_model(path: Path) -> LoadedModel:
    """Read a model that ``save_model`` wrote.

    Raises:
        CostModelError: There is no such file, it is damaged, or it is no model of a version that is
            understood.
    """
    with _readable(path):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        document = json.loads(members["model.json"])
        _check_format(document, path)
        model = _restore(document["model"], _unflatten(document["state"], members))
        metadata = _unflatten(document["metadata"], members)
    return LoadedModel(model, metadata, document.get("versions", {}), path)


def read_card(path: Path) -> ModelCard:
    """What a model's file says of it; nothing is built from it.

    Raises:
        CostModelError: As ``load_model``.
    """
    with _readable(path), zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
        _check_format(document, path)
        size = path.stat().st_size
        return ModelCard(document["model"], document["metadata"], document.get("versions", {}), size)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read, or is damaged, what to do about it."""
    try:
        yield
    except OSError as error:
        raise CostModelError(f"Cannot read the model {path}: {error.strerror}.") from error
    except _DAMAGE as error:
        raise CostModelError(
            f"{path} must be a model written by `costmodel train`, but it is damaged or something else "
            f"({error}). Train it again."
        ) from error


def _check_format(document: dict[str, Any], path: Path) -> None:
    if document["format"] != FORMAT:
        raise ValueError(f"format is {document['format']!r}")
    if document["format_version"] != FORMAT_VERSION:
        raise CostModelError(
            f"{path} must have format version {FORMAT_VERSION}, but has {document['format_version']}. "
            "Use the version of costmodel that wrote it, or train it again."
        )


def _restore(description: dict[str, Any], state: dict[str, Any]) -> StorableModel:
    model = _build(description)
    if not isinstance(model, StorableModel):
        raise TypeError(f"{type(model).__name__} is no transfer model")
    return model.load_state(state)


def _describe(model: StorableModel | Learner) -> dict[str, Any]:
    """Class name and settings; settings that are learners or models, or tuples of them, likewise."""
    if _CLASSES.get(type(model).__name__) is not type(model):
        raise TypeError(
            f"a learner to save must be one of {sorted(_CLASSES)}, but got {type(model).__name__}"
        )
    names = inspect.signature(type(model)).parameters
    settings = {name: _describe_setting(getattr(model, name)) for name in names}
    return {"class": type(model).__name__, "settings": settings}


def _describe_setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_describe_setting(item) for item in value]
    return {"$model": _describe(value)} if isinstance(value, Learner | StorableModel) else value


def _build(description: dict[str, Any]) -> StorableModel | Learner:
    """An unfitted model; the inverse of ``_describe``."""
    settings = {name: _setting(value) for name, value in description["settings"].items()}
    return _CLASSES[description["class"]](**settings)


def _setting(value: Any) -> Any:
    if isinstance(value, dict):
        return _build(value["$model"])
    return tuple(_setting(item) for item in value) if isinstance(value, list) else value


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


def _zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
