"""What instructions of PTX make of whole numbers, for all lanes of a warp; None of what data decide."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.cuda._ptx import PtxInstruction

LANES = 32
Lanes = NDArray[Any]  # ``(32,)``: int32 or int64, or bool of a predicate
Known = Lanes | None

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge},
}
_JOIN: Mapping[str, Callable[[Any, Any], Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_WHOLE = ("s", "u", "b")


def compute_lanes(instruction: PtxInstruction, given: list[Known]) -> Known:
    """Return the result of an instruction; None if it is no whole number, or what it needs is unknown.

    Args:
        instruction: The instruction; not one of memory.
        given: What is known of its operands behind the result.
    """
    name, parts = instruction.name, instruction.parts
    kind = parts[-1] if parts else ""
    if name == "selp" and given[-1] is not None and given[0] is not None and given[1] is not None:
        return np.where(given[-1], given[0], given[1])
    rule = _RULES.get(name)
    if rule is None or any(each is None for each in given):
        return None
    if kind != "pred" and not (kind.startswith(_WHOLE) and all(not each.startswith("f") for each in parts)):
        return None
    return rule(parts, kind, given)


def typed(value: Any, kind: str) -> Lanes:
    """Return numbers as their type has them: signed ones of 32 or 64 bits."""
    return np.asarray(value).astype(np.int64 if kind.endswith("64") else np.int32)


def _unsigned(value: Any, kind: str) -> Lanes:
    signed = typed(value, kind)
    return signed.view(np.uint64 if kind.endswith("64") else np.uint32)


def _read(value: Any, kind: str) -> Lanes:
    """Return numbers as their type reads them: without a sign if it has none."""
    return _unsigned(value, kind) if kind.startswith("u") else typed(value, kind)


def _two(function: Callable[[Any, Any], Any]) -> Callable[..., Known]:
    def rule(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
        if kind == "pred":
            return np.asarray(function(given[0], given[1]))
        return typed(function(_read(given[0], kind), _read(given[1], kind)), kind)

    return rule


def _multiply(parts: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    """``mul`` and ``mad``: the lower half of the product, the upper one of 32-bit numbers, or all of it."""
    a, b = (_read(each, kind) for each in given[:2])
    if "hi" in parts:
        is_wide = kind.endswith("64")
        return None if is_wide else typed((a.astype(np.int64) * b.astype(np.int64)) >> 32, kind)
    if "wide" in parts:
        wide = "s64" if kind.endswith("32") else "s32"
        a, b = typed(a, wide), typed(b, wide)
        kind = wide
    product = typed(a * b, kind)
    return typed(product + typed(given[2], kind), kind) if len(given) > 2 else product


def _divide(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    """Divide towards zero."""
    a, b = (_read(each, kind) for each in given)
    b = np.where(b == 0, 1, b)
    return typed((a - np.fmod(a, b)) // b, kind)


def _remainder(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    a, b = (_read(each, kind) for each in given)
    return typed(np.fmod(a, np.where(b == 0, 1, b)), kind)


def _compare(parts: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    found = _COMPARE[parts[0]](_read(given[0], kind), _read(given[1], kind))
    if len(given) > 2 and parts[1] in _JOIN:
        return np.asarray(_JOIN[parts[1]](found, given[2]))
    return np.asarray(found)


def _convert(parts: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    to = next(each for each in parts if each[:1] in _WHOLE and each[1:].isdigit())
    return typed(_read(given[0], kind), to)


def _shift_right(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    return typed(_read(given[0], kind) >> typed(given[1], kind).astype(_read(given[0], kind).dtype), kind)


def _insert(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    """``bfi``: so many bits of the first number, from a place of the second on."""
    low, onto, place, count = (typed(each, "s64") for each in given)
    mask = ((1 << count) - 1) << place
    return typed((onto & ~mask) | ((low << place) & mask), kind)


def _extract(_: tuple[str, ...], kind: str, given: list[Any]) -> Known:
    number, place, count = (typed(each, "s64") for each in given)
    return typed((number >> place) & ((1 << count) - 1), kind)


_RULES: Mapping[str, Callable[..., Known]] = {
    "add": _two(operator.add),
    "sub": _two(operator.sub),
    "mul": _multiply,
    "mad": _multiply,
    "div": _divide,
    "rem": _remainder,
    "min": _two(np.minimum),
    "max": _two(np.maximum),
    **{name: _two(function) for name, function in _JOIN.items()},
    "shl": _two(operator.lshift),
    "shr": _shift_right,
    "not": lambda _, kind, given: ~given[0] if kind == "pred" else typed(~typed(given[0], kind), kind),
    "neg": lambda _, kind, given: typed(-typed(given[0], kind), kind),
    "abs": lambda _, kind, given: typed(np.abs(typed(given[0], kind)), kind),
    "mov": lambda _, kind, given: given[0] if kind == "pred" else typed(given[0], kind),
    "setp": _compare,
    "cvt": _convert,
    "cvta": lambda _, kind, given: typed(given[0], kind),
    "bfi": _insert,
    "bfe": _extract,
}
