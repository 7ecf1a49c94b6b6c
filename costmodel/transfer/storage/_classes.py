"""An unfitted model as JSON, its class and settings, and back through the registry."""

import inspect
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from costmodel.errors import CostModelError
from costmodel.learners._base import Storable
from costmodel.learners._registry import class_key, is_registered, stored_class
from costmodel.transfer._base import StorableModel

# Types of settings that a value out of JSON can be checked against.
_PLAIN = (bool, int, float, str, int | None, float | None, tuple[int, ...], tuple[int, ...] | None)


def describe_class(model: Storable) -> dict[str, Any]:
    """Class and settings; settings that are storable themselves, or tuples of them, likewise.

    Raises:
        CostModelError: A class is not registered.
    """
    cls = type(model)
    if not is_registered(cls):
        raise CostModelError(
            f"A model to save must be of registered classes, but {class_key(cls)} is none: decorate it with "
            "`costmodel.learners.register`."
        )
    settings = {name: _describe_setting(getattr(model, name)) for name in inspect.signature(cls).parameters}
    return {"class": class_key(cls), "settings": settings}


def build(description: dict[str, Any]) -> StorableModel:
    """The unfitted model that ``describe_class`` described.

    Raises:
        CostModelError: A class is not registered.
        TypeError: It is no transfer model, or its class has other settings.
    """
    model = _build(description)
    if not isinstance(model, StorableModel):
        raise TypeError(f"{type(model).__name__} is no transfer model")
    return model


def _describe_setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_describe_setting(item) for item in value]
    return {"$model": describe_class(value)} if isinstance(value, Storable) else value


def _build(description: dict[str, Any]) -> Storable:
    cls = stored_class(description["class"])  # before its parts: what is missing is told by the whole
    settings = {name: _setting(value) for name, value in description["settings"].items()}
    _check_settings(cls, settings)
    return cls(**settings)


def _check_settings(cls: type[Storable], settings: Mapping[str, Any]) -> None:
    """Check settings out of a file by what their class says of them: a model that runs must not meet others.

    Raises:
        ValueError: One is of another type, or is not finite.
    """
    try:
        annotations = get_type_hints(cls.__init__)
    except NameError:  # a type of another package that only a type checker imports
        annotations = {}
    for name, value in settings.items():
        try:
            if annotations.get(name) in _PLAIN:
                msgspec.convert(value, annotations[name])
        except msgspec.ValidationError as error:
            raise ValueError(f"{name} of {cls.__name__} is {value!r}: {error}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} of {cls.__name__} must be finite, but is {value}")


def _setting(value: Any) -> Any:
    if isinstance(value, dict):
        return _build(value["$model"])
    return tuple(_setting(item) for item in value) if isinstance(value, list) else value
