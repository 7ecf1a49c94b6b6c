"""Learners by name, and classes by the key that a model file has for them: one registry for both.

A class enters by ``register`` when its module is imported. Packages of others name theirs in an entry point
of the group ``costmodel.learners``, which is loaded when a name or a key is looked up that nobody here has.
Nothing is ever imported by a name that stands in a model file.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from costmodel.errors import CostModelError
from costmodel.learners._base import Storable

GROUP = "costmodel.learners"
# What learns unless told otherwise: the best without measurements of the workload, see README.md.
DEFAULT_LEARNER = "kernel-ridge"

T = TypeVar("T", bound=type[Storable])

_learners: dict[str, type[Storable]] = {}
_classes: dict[str, type[Storable]] = {}


def register(name: str | None = None) -> Callable[[T], T]:
    """Class decorator: model files may hold objects of the class, and it can be trained by a name.

    Args:
        name: What it is called in ``make_model``, ``train`` and ``evaluate``; None for a class that is only
            ever a part of others.

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
            other = _learners.get(name, cls)
            if class_key(other) != key:
                raise ValueError(f"a learner's name must be its own, but {name!r} is {class_key(other)}")
            _learners[name] = cls
        _classes[key] = cls
        return cls

    return enter


def class_key(cls: type) -> str:
    """What a model file has for a class: ``module:name``, of classes of this package the name alone."""
    return cls.__name__ if cls.__module__.startswith("costmodel.") else f"{cls.__module__}:{cls.__qualname__}"


def learner_names() -> tuple[str, ...]:
    """Names of all learners: those of this package, then those of others; of the latter nothing is loaded."""
    return tuple(dict.fromkeys([*_learners, *(entry.name for entry in _sorted(entry_points(group=GROUP)))]))


def learner_class(name: str) -> type[Storable]:
    """The class of a learner.

    Raises:
        CostModelError: No learner has this name, or its package cannot be loaded.
    """
    if name not in _learners:
        for entry in _sorted(entry_points(group=GROUP, name=name)):
            _load(entry)
    if name not in _learners:
        raise CostModelError(f"A learner must be one of {', '.join(learner_names())}, but got {name!r}.")
    return _learners[name]


def stored_class(key: str) -> type[Storable]:
    """The class that a model file names.

    Raises:
        CostModelError: No class of this package, and none that an installed one registers, has this key.
    """
    if key not in _classes:
        for entry in _sorted(entry_points(group=GROUP)):
            _load(entry)
    if key not in _classes:
        raise CostModelError(
            f"The model needs {key}, which is no class of this version and which no installed package "
            f"registers by an entry point of group {GROUP}. Install the package that it is from, or train "
            "the model again."
        )
    return _classes[key]


def is_registered(cls: type) -> bool:
    """Whether model files may hold objects of this class."""
    return _classes.get(class_key(cls)) is cls


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
            f"The learner {entry.name!r} of the package {package} cannot be loaded: {error}. Mend that "
            "package or uninstall it."
        ) from error


def _checked(loaded: Any) -> type[Storable]:
    """What an entry point gave, if it can be registered."""
    if isinstance(loaded, type) and issubclass(loaded, Storable):
        return loaded
    raise TypeError(f"it must be a class derived from Learner or StorableModel, but is {loaded!r}")
