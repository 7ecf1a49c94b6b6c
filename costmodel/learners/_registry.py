"""Registry of learners by name and of classes by their key in model files.

A class of this package is loaded when its name or key is looked up, so that a model loads the learners that
it consists of and no others. Other packages declare their classes in entry points of the group
``costmodel.learners``, which are loaded when a name or key is looked up that this package lacks. A name
in a model file is never imported.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from costmodel.errors import CostModelError
from costmodel.learners._base import Storable

GROUP = "costmodel.learners"
DEFAULT_LEARNER = "kernel-ridge"
"""Name of the learner that is used where none is named: the best without measurements of the workload."""

# The class of each learner of this package, in the order in which they are listed.
_OWN_LEARNERS = {
    "analytic": "costmodel.learners._analytic:AnalyticPrior",
    "consensus": "costmodel.learners._source_rules:WeightedConsensus",
    "nearest-task": "costmodel.learners._source_rules:NearestTask",
    "network": "costmodel.learners._network:MultitaskNetwork",
    "kernel-ridge": "costmodel.learners._kernel_ridge:KernelRidge",
    "random": "costmodel.learners._random:RandomLearner",
    "ridge": "costmodel.learners._ridge:RidgeLearner",
    "random-forest": "costmodel.learners.trees._random_forest:RandomForestLearner",
    "xgboost": "costmodel.learners.trees._boosted_trees:XGBoostLearner",
    "xgboost-rank": "costmodel.learners.trees._boosted_trees:XGBoostRanker",
    "xgboost-score": "costmodel.learners.trees._boosted_trees:XGBoostScorer",
    "scaled-from-whole": "costmodel.learners._scaled_from_whole:ScaledFromWhole",
    "known-elsewhere": "costmodel.learners._known_elsewhere:KnownElsewhere",
    "stack": "costmodel.learners._stack:Stack",
    "committee": "costmodel.learners._stack:Committee",
    "stack-above-analytic": "costmodel.learners._stack:AboveAnalytic",
    "ridge-on-sources": "costmodel.transfer.models._ridge_on_sources:RidgeOnSources",
    "source-mixture": "costmodel.transfer.models._source_mixture:SourceMixture",
}
# Classes of this package that model files may name beside those of learners.
_OWN_PARTS = (
    "costmodel.transfer.models._conformal:Conformal",
    "costmodel.transfer.models._guarded:Guarded",
    "costmodel.transfer.models._residual:FromScratch",
    "costmodel.transfer.models._residual:Residual",
)
# By key in model files.
_OWN_CLASSES = {place.partition(":")[2]: place for place in (*_OWN_LEARNERS.values(), *_OWN_PARTS)}

T = TypeVar("T", bound=type[Storable])

_learners: dict[str, type[Storable]] = {}
_classes: dict[str, type[Storable]] = {}


def register(name: str | None = None) -> Callable[[T], T]:
    """Register a class as a decorator, so that model files can store it and it can be trained by name.

    Args:
        name: Name of the learner in ``make_model``, ``train`` and ``evaluate``. None for a class that is only
            used as a part of others.

    Raises:
        ValueError: Another class has this name.

    Example:
        >>> from costmodel.learners import RidgeLearner
        >>> register("ridge")(RidgeLearner) is learner_class("ridge")
        True
    """

    def enter(cls: T) -> T:
        key = class_key(cls)
        if name is not None:
            other = _own(name, _OWN_LEARNERS, _learners, unless=cls.__module__) or cls
            if class_key(other) != key:
                raise ValueError(f"a learner's name must be unique, but {name!r} is {class_key(other)}")
            _learners[name] = cls
        _classes[key] = cls
        return cls

    return enter


def class_key(cls: type) -> str:
    """Return the key of a class in model files: ``module:name``, or the name alone in this package."""
    return cls.__name__ if cls.__module__.startswith("costmodel.") else f"{cls.__module__}:{cls.__qualname__}"


def learner_names() -> tuple[str, ...]:
    """Return the names of all learners, first those of this package; no other package is loaded."""
    others = [*_learners, *(entry.name for entry in _sorted(entry_points(group=GROUP)))]
    return tuple(dict.fromkeys([*_OWN_LEARNERS, *others]))


def learner_class(name: str) -> type[Storable]:
    """Return the class of a learner.

    Raises:
        CostModelError: The learner is unknown, or its package cannot be loaded.
    """
    if _own(name, _OWN_LEARNERS, _learners) is None:
        for entry in _sorted(entry_points(group=GROUP, name=name)):
            _load(entry)
    if name not in _learners:
        raise CostModelError(f"A learner must be one of {', '.join(learner_names())}, but got {name!r}.")
    return _learners[name]


def stored_class(key: str) -> type[Storable]:
    """Return the class with this key in a model file.

    Raises:
        CostModelError: Neither this package nor an installed one registers a class with this key.
    """
    if _own(key, _OWN_CLASSES, _classes) is None:
        for entry in _sorted(entry_points(group=GROUP)):
            _load(entry)
    if key not in _classes:
        raise CostModelError(
            f"The model needs {key}, which is no class of this version and which no installed package "
            f"registers by an entry point of group {GROUP}. Install the package that provides it, or train "
            "the model again."
        )
    return _classes[key]


def is_registered(cls: type) -> bool:
    """Return whether model files can store objects of this class."""
    return _classes.get(class_key(cls)) is cls


def _own(
    key: str, places: dict[str, str], loaded: dict[str, type[Storable]], unless: str | None = None
) -> type[Storable] | None:
    """Return a class by its name or key, loaded from this package if need be; None if it is not known.

    A module that is being imported (``unless``) registers its own class.
    """
    module = places.get(key, "").partition(":")[0]
    if key not in loaded and module and module != unless:
        import_module(module)
    return loaded.get(key)


def _sorted(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    return sorted(entries, key=lambda entry: (entry.name, entry.value))


def _load(entry: EntryPoint) -> None:
    """Register the class that an entry point names.

    Raises:
        CostModelError: It cannot be imported, is no learner, or has the name of another.
    """
    try:
        register(entry.name)(_checked(entry.load()))
    except Exception as error:
        package = entry.dist.name if entry.dist else entry.module
        raise CostModelError(
            f"The learner {entry.name!r} of the package {package} cannot be loaded: {error}. Fix that "
            "package or uninstall it."
        ) from error


def _checked(loaded: Any) -> type[Storable]:
    """Return what an entry point gave, if it can be registered."""
    if isinstance(loaded, type) and issubclass(loaded, Storable):
        return loaded
    raise TypeError(f"it must be a class derived from Learner or StorableModel, but is {loaded!r}")
