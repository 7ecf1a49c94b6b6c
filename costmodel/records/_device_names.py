"""Names of devices as drivers and people write them, and which devices they may mean.

A name is exact if it is another's but for case, punctuation and the words of brands. Else it means each
device that has all of its words, the model's number among them, and is no variant, such as ``Ti``, that the
name does not tell. What only describes a device, such as its memory or its form, tells devices apart where
their names say it, and counts for nothing where they do not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

from costmodel.errors import CostModelError, did_you_mean, shorten

# Drivers and people write "NVIDIA GeForce RTX 3090", "GeForce RTX 3090", "RTX 3090", "RTX_3090" and "3090".
_BRANDS = re.compile(
    r"nvidia|amd|intel|geforce|tesla|instinct|radeon|graphics|jetson|tensor[\W_]*core|gpu|oam|\(r\)|\(tm\)|[®™]"
    r"|[dh]gx(?=[\W_]*g?[abh]\d)|[rg]tx(?=[\W_]*(?:a?\d|pro))"
)
_NO_PART_OF_A_NAME = re.compile(r"[\W_]")
# "80 GB", "80G", "SXM4" and "NVL72" as "80gb", "sxm" and "rack".
_SAME = (
    (re.compile(r"\b(\d+)\s*gb?\b"), r"\1gb"),
    (re.compile(r"\b(sxm|pcie)\d+\b"), r"\1"),
    (re.compile(r"\bnvl\d+\b"), "rack"),
)
# What words describe, of which a device has one of each.
_DESCRIBED = (re.compile(r"\d+gb"), re.compile("sxm|pcie|rack"), re.compile(r"(?:hbm|gddr)\d\w*"))
# Words of which each tells a device of its own: who leaves one out means the device without it.
_VARIANTS = frozenset(("ti", "super", "d", "laptop", "mobile", "xt", "xtx", "gre"))
_MOST_NAMED = 6


@lru_cache(maxsize=1024)
def device_key(name: str) -> str:
    """Reduce a name to what identifies a device: letters and digits, without brands."""
    return _NO_PART_OF_A_NAME.sub("", _BRANDS.sub(" ", name.lower()))


def find_meant(name: str, known: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the devices that a name may mean: one if it is exact or fits one alone.

    Args:
        name: As a driver or a person writes it.
        known: Names of each device, by one of them.

    Example:
        >>> known = {"40": ["NVIDIA A100-SXM4-40GB"], "80": ["NVIDIA A100-SXM4-80GB"], "L4": ["NVIDIA L4"]}
        >>> find_meant("a100_sxm4_80gb", known), find_meant("A100 SXM", known), find_meant("L4 24GB", known)
        (['80'], ['40', '80'], ['L4'])
    """
    key, words = device_key(name), _words(name)
    names = {device: list(each) for device, each in known.items()}
    if exact := [device for device, each in names.items() if key in map(device_key, each)]:
        return exact
    if not any(re.search(r"\d", word) and not _describes(word) for word in words):
        return []
    return [device for device, each in names.items() if _fits(words, list(map(_words, each)))]


def refuse_name(name: str, meant: Sequence[str], known: Iterable[str], what: str) -> NoReturn:
    """Say that a name means none of the known devices, or several.

    Args:
        name: As a driver or a person writes it.
        meant: Those that it may mean.
        known: Those that there are.
        what: What a device must be, such as ``one that was measured``.

    Raises:
        CostModelError: Always.
    """
    told = did_you_mean(name, known, device_key)
    if meant:
        more = f" or {len(meant) - _MOST_NAMED} others" if len(meant) > _MOST_NAMED else ""
        told = f" It may be {' or '.join(map(repr, meant[:_MOST_NAMED]))}{more}: name one of them."
    raise CostModelError(f"The device must be {what}, but got {shorten(repr(name))}.{told}")


@lru_cache(maxsize=1024)
def _words(name: str) -> frozenset[str]:
    """Words of a name, without brands and spelled alike."""
    text = _BRANDS.sub(" ", name.lower()).replace("_", " ")
    for pattern, same in _SAME:
        text = pattern.sub(same, text)
    return frozenset(re.findall(r"[^\W_]+", text))


def _fits(words: frozenset[str], names: list[frozenset[str]]) -> bool:
    """Whether a device's name has all words, and no variant's more, or all but descriptions, none at odds."""
    told = frozenset().union(*names)
    kinds = {_describes(word) for word in told}
    describing = {word for word in words if _describes(word)}
    is_at_odds = any(word not in told and _describes(word) in kinds for word in describing)
    is_part = any(words <= name and not (name - words) & _VARIANTS for name in names)
    return is_part or (not is_at_odds and words - describing in names)


def _describes(word: str) -> int:
    """What a word describes, as a place among what is described, from 1 on; 0 for nothing."""
    return next((place for place, each in enumerate(_DESCRIBED, 1) if each.fullmatch(word)), 0)
