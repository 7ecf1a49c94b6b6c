"""A model as JSON and back: its class and settings, and its learned state with arrays as members."""

import inspect
import io
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.learners._base import Storable
from costmodel.learners._registry import class_key, is_registered, stored_class
from costmodel.transfer._base import StorableModel


def flatten_state(value: Any, members: dict[str, bytes]) -> Any:
    """Return JSON for a state. Its arrays and bytes are added to the members, and named in their place."""
    if isinstance(value, Mapping):
        return {name: flatten_state(item, members) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return {"$array": _add(members, buffer.getvalue(), "npy")}
    if isinstance(value, bytes):
        return {"$bytes": _add(members, value, "bin")}
    return value


def unflatten_state(value: Any, members: Mapping[str, bytes]) -> Any:
    """Return what ``flatten_state`` was given.

    Raises:
        KeyError: A member is missing.
        ValueError: A member is no array, or has another size than it declares.
    """
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return _array(members[value["$array"]])
    if "$bytes" in value:
        return members[value["$bytes"]]
    return {name: unflatten_state(item, members) for name, item in value.items()}


def _array(content: bytes) -> NDArray[Any]:
    """The array in an NPY file of version 1.0.

    ``np.load`` would allocate what the header declares before it looks whether so much is there.
    """
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array must be in NPY format 1.0")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")


def _add(members: dict[str, bytes], content: bytes, suffix: str) -> str:
    name = f"{len(members)}.{suffix}"
    members[name] = content
    return name


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
