"""Helion's configs in words of the record store, and back."""

import json
import re
from collections.abc import Iterable
from typing import Any

import helion

from costmodel.records._candidate import Config, Decision

_ITEM = re.compile(r"(.+)\[(\d+)\]", re.ASCII)
_JSON = re.compile(r"null|true|false|\[.*\]")


def config_of(config: helion.Config) -> Config:
    """A config with one decision a number or choice: item i of a list is ``name[i]``.

    What is no number and no text, such as the order of two loops, is its JSON.

    Example:
        >>> config_of(helion.Config(block_sizes=[16, 32], range_flattens=[None])).decisions  # doctest: +SKIP
        {'block_sizes[0]': 16, 'block_sizes[1]': 32, 'range_flattens[0]': 'null'}
    """
    decisions: dict[str, Decision] = {}
    for name, value in sorted(config.config.items()):
        if isinstance(value, list):
            decisions |= {f"{name}[{i}]": _decision(item) for i, item in enumerate(value)}
        else:
            decisions[name] = _decision(value)
    return Config(decisions)


def distinct(configs: Iterable[Config | None]) -> list[Config]:
    """Those that are there, each once, in order."""
    return list({each.config_id: each for each in configs if each is not None}.values())


def helion_config(config: Config) -> helion.Config:
    """The inverse of ``config_of``; lists without items are left to Helion, which adds them."""
    values: dict[str, Any] = {}
    for name, decision in config.decisions.items():
        if item := _ITEM.fullmatch(name):
            values.setdefault(item[1], []).append(_value(decision))
        else:
            values[name] = _value(decision)
    return helion.Config.from_dict(values)


def _decision(value: Any) -> Decision:
    is_plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)


def _value(decision: Decision) -> Any:
    is_json = isinstance(decision, str) and _JSON.fullmatch(decision)
    return json.loads(decision) if is_json else decision  # type: ignore[arg-type]
