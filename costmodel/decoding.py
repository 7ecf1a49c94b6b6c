"""What decoders without types let pass, and all faults of a document that somebody wrote by hand."""

from collections.abc import Iterator
from itertools import islice
from math import isfinite
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T")

# What decoding, converting and encoding raise for what is no such value: errors of the decoder, text that is
# not UTF-8, numbers out of range, and nesting.
UNDECODABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
_MOST_DEPTH = 100
_MOST_FAULTS = 20


def check_document(value: Any) -> None:
    """Check what a decoder without types lets pass.

    Raises:
        ValueError: It is nested too deeply for functions that call themselves, or has a number that is not
            finite or an integer beyond 64 bits.
    """
    level = [value]
    for _ in range(_MOST_DEPTH):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif isinstance(each, int) and not -(2**63) <= each < 2**63:
                raise ValueError("a whole number must fit 64 bits, but one does not")
            elif isinstance(each, float) and not isfinite(each):
                raise ValueError(f"a number must be finite, but one is {each}")
        if not inner:
            return
        level = inner
    raise ValueError(f"it must be nested at most {_MOST_DEPTH} deep, but goes deeper")


def convert(document: Any, kind: type[T] | Any) -> T:
    """Convert what a decoder gave to a type; whoever writes by hand is told all faults at once.

    Raises:
        ValueError: It has faults.
    """
    try:
        found: T = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        faults = list(islice(_faults(document, kind), _MOST_FAULTS))
        raise ValueError("; ".join(faults) or str(error)) from error
    return found


def _faults(value: Any, kind: Any, place: str = "") -> Iterator[str]:
    """What is wrong with each field of a document, and with those of the tables in it."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    struct = next(
        (each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct)), None
    )
    if struct is not None and isinstance(value, dict):
        fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
        missing = [name for name, field in fields.items() if field.required and name not in value]
        unknown = [name for name in value if name not in fields]
        if missing:
            yield f"{place or 'it'} lacks {', '.join(missing)}"
        if unknown and struct.__struct_config__.forbid_unknown_fields:
            yield f"{place or 'it'} has the unknown {', '.join(unknown)}"
        for name in filter(value.__contains__, fields):
            yield from _faults(value[name], fields[name].type, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list) and get_origin(kind) in (list, tuple):
        for number, each in enumerate(value, start=1):
            yield from _faults(each, get_args(kind)[0], f"{place} {number}")
    else:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            yield f"{place or 'it'}: {error}"
