"""Learned state as JSON, with arrays and bytes as members of an archive, and back."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def flatten(value: Any, members: dict[str, bytes]) -> Any:
    """JSON for a state. Its arrays and bytes are added to the members, and named in their place."""
    if isinstance(value, Mapping):
        return {name: flatten(item, members) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return {"$array": _add(members, buffer.getvalue(), "npy")}
    if isinstance(value, bytes):
        return {"$bytes": _add(members, value, "bin")}
    return value


def unflatten(value: Any, members: Mapping[str, bytes]) -> Any:
    """What ``flatten`` was given.

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
    return {name: unflatten(item, members) for name, item in value.items()}


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
