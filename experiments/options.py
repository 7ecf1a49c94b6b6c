"""Options of an experiment: what its command line says, and for the rest what its ``config.toml`` says.

Defaults stand in the file alone; a script's parser has none.
"""

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def parse_options(
    parser: argparse.ArgumentParser, script: str, argv: Sequence[str] | None = None
) -> argparse.Namespace:
    """Parse the command line of a script, with ``config.toml`` beside it, or ``--config``, for defaults.

    A file that has another key than the names of the options, or a value of another type, ends the program
    as a wrong option does.

    Args:
        parser: Knows the options.
        script: ``__file__`` of the script.
        argv: Arguments; those of the process if not given.
    """
    beside = Path(script).with_name("config.toml")
    parser.add_argument("--config", type=Path, default=beside, help="TOML that holds the defaults")
    options = parser.parse_args(argv)
    try:
        defaults = _defaults(parser, tomllib.loads(options.config.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, ValueError) as error:
        parser.error(f"{options.config}: {error}")
    for key, value in defaults.items():
        said = getattr(options, key)
        if said is None or said is False:
            setattr(options, key, value)
    return options


def _defaults(parser: argparse.ArgumentParser, values: dict[str, Any]) -> dict[str, Any]:
    """Values of a file as the options would have them."""
    actions = {action.dest: action for action in parser._actions if action.dest not in ("help", "config")}
    unknown = sorted(set(values) - set(actions))
    if unknown:
        raise ValueError(f"keys must be among {', '.join(actions)}, but got {', '.join(unknown)}")
    return {key: _converted(actions[key], value) for key, value in values.items()}


def _converted(action: argparse.Action, value: Any) -> Any:
    if action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction):
        if not isinstance(value, list):
            raise ValueError(f"{action.dest} must be a list, but got {value!r}")
        return [_single(action, item) for item in value]
    return _single(action, value)


def _single(action: argparse.Action, value: Any) -> Any:
    """One value as the option's type, which the file must have written as such."""
    flag = action.nargs == 0
    wanted = bool if flag else {int: int, float: (int, float)}.get(action.type, str)  # type: ignore[call-overload]
    if not isinstance(value, wanted) or (isinstance(value, bool) and not flag):
        name = "true or false" if flag else getattr(action.type, "__name__", "str")
        raise ValueError(f"{action.dest} must be {name}, but got {value!r}")
    if action.choices is not None and value not in action.choices:
        raise ValueError(f"{action.dest} must be one of {', '.join(action.choices)}, but got {value!r}")
    return value if flag or action.type is None else action.type(value)
