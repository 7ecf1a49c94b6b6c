"""The keywords that ``tune`` had until 0.3, translated until 0.5."""

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._replay import ReplayRunner
from costmodel.collector.runners._wrapped import RecordedRunner
from costmodel.errors import CostModelError, did_you_mean
from costmodel.tuning._places import Beside, Cpu, Gpu, Place, Replay, find_place
from costmodel.tuning._request import Goal, Prior, SearchSettings

_GOAL = ("objective", "weights", "portfolio", "free_sms")
_PRIOR = ("model", "learn_from", "start_from", "learner", "keep_twins_apart")
_SEARCH = ("screened", "stop_gain", "study", "study_name", "seed", "measure_curves")
_REPLAY = ("replay", "device")
_DEVICE = ("records", "kernels", "engine", "lanes")
_FORMER = ("source", *_GOAL, *_PRIOR, *_SEARCH, *_REPLAY, *_DEVICE, "runner", "beside")


def translate_keywords(former: Mapping[str, Any], **current: Any) -> dict[str, Any]:
    """Translate former keywords of ``tune`` into its arguments, with a warning that shows the new form.

    Args:
        former: Keywords that ``tune`` no longer has, with their values.
        **current: The arguments ``sms``, ``on``, ``prior``, ``search`` and ``sources`` as they were given.

    Raises:
        TypeError: ``tune`` never had a keyword.
        CostModelError: The values contradict each other.
    """
    if unknown := sorted(set(former) - set(_FORMER)):
        hint = did_you_mean(unknown[0], [*_FORMER, *current, "trials", "dims", "on_trial"])
        raise TypeError(f"tune() got an unexpected keyword argument {unknown[0]!r}.{hint}")
    given = {name: value for name, value in former.items() if value is not None}
    found = {
        "sms": replace(Goal.of(current["sms"]), **_pick(given, _GOAL)),
        "on": _make_place(given, current["on"]),
        "prior": replace(Prior.of(current["prior"]), **_pick(given, _PRIOR)),
        "search": replace(current["search"], **_pick(given, _SEARCH)),
        "sources": given.get("source", current["sources"]),
    }
    form = ", ".join(f"{name}={_write_value(found[name])}" for name in _find_arguments(former))
    warnings.warn(
        f"tune({', '.join(f'{name}=...' for name in former)}) is now written tune({form}); the former "
        "keywords go in 0.5.",
        DeprecationWarning,
        stacklevel=3,
    )
    return found


def _pick(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _find_arguments(former: Mapping[str, Any]) -> list[str]:
    """Return the arguments that now say what former keywords said."""
    parts = {"sms": _GOAL, "prior": _PRIOR, "search": _SEARCH, "sources": ("source",)}
    parts["on"] = (*_REPLAY, *_DEVICE, "runner", "beside")
    return [name for name, keywords in parts.items() if set(keywords) & set(former)]


def _make_place(given: Mapping[str, Any], on: Place | str) -> Place:
    """Make the place that former keywords describe."""
    runner = given.get("runner", on)
    if runner not in ("replay", "cuda", "cpu"):
        place = find_place(runner)
    elif runner == "replay":
        place = Replay(given.get("replay"), given.get("device"))
    else:
        settings = _pick(given, _DEVICE if runner == "cuda" else _DEVICE[:-1])
        place = Gpu(**settings) if runner == "cuda" else Cpu(**settings)
    if not isinstance(place, Replay) and set(given) & set(_REPLAY):
        raise CostModelError(
            f"Records to replay, and the device that they are of, must be named without a runner, but got "
            f"{runner}. Leave one of them out."
        )
    if given.get("lanes") and not isinstance(place, Gpu):
        raise CostModelError(f"Lanes must be those of the runner cuda, but got {runner}. Leave them out.")
    if isinstance(place, Runner) and not isinstance(place, ReplayRunner) and "records" in given:
        place = RecordedRunner(place, given["records"])
    if "beside" in given and not isinstance(place, Beside):
        return Beside(place, given["beside"])
    return place


def _write_value(value: Any) -> str:
    """Write a value as a caller would: without what is at its default."""
    if not isinstance(value, Goal | Prior | SearchSettings | Replay | Gpu | Cpu | Beside):
        return repr(value)
    said = {each.name: getattr(value, each.name) for each in fields(value)}
    plain = {each.name: each.default for each in fields(value)}
    text = ", ".join(f"{name}={_write_value(each)}" for name, each in said.items() if each != plain[name])
    return f"{type(value).__name__}({text})"
