"""Where a model comes from."""

import platform
import sys

import msgspec

from costmodel.records import Device
from costmodel.version import __version__

# Packages of which another version may learn something else.
_LEARN = ("numpy", "scipy", "sklearn", "xgboost", "torch")


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a model comes from and how good it is; empty where that is not known.

    Attributes:
        learner: Name of what learned, such as ``kernel-ridge+intervals``.
        seed: Seed of its random choices.
        dataset: Name of the dataset that was learned from.
        dataset_sha256: Hash of its file.
        devices: Devices that were learned from.
        platforms: Names of the platforms: device, isolation mechanism, SMs granted.
        workloads: Names of the workloads that were learned from.
        held_out: Names of those that the model was judged by instead.
        folds: Groups of workloads each of which was held out, in turn, of a model like this one.
        tasks: Tasks that were learned from.
        rows: Measured (candidate, platform) pairs that were learned from.
        columns: Names of the feature columns that the model expects, in order.
        metrics: By name, what the tasks held out say: mean Score@k, median latency error, and how many of the
            intervals hold and how wide they are in the median.
        versions: Of this package, of Python, and of the packages that learned.
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
    """Versions of this package, of Python, and of those packages that are loaded and learn."""
    loaded = {name: str(module.__version__) for name in _LEARN if (module := sys.modules.get(name))}
    return {"costmodel": __version__, "python": platform.python_version(), **loaded}
