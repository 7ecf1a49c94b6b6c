"""Metadata of a model: its training data and accuracy."""

import platform
import sys

import msgspec

from costmodel.records._platform import Device
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
