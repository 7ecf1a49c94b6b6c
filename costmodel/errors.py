"""Errors that a user can act on, and helpers for error messages."""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

from costmodel.printable import make_printable

_NAME = "sm-costmodel"
_MOST_NAME = 200  # characters; comparing longer ones takes seconds


class CostModelError(Exception):
    """Base class of errors that a user can act on: wrong input, a missing file, an unavailable device.

    The message says what must hold, what was found instead, and what to do. The command line prints only the
    message, without a traceback, and exits with code 2. Passwords are masked and control characters escaped,
    so that whoever shows or keeps it can: a name of a file may have halves of characters, which no text has.
    """

    def __init__(self, *arguments: object) -> None:
        shown = (
            make_printable(each, keep_lines=True) if isinstance(each, str) else each for each in arguments
        )
        super().__init__(*shown)


class InvalidArgumentError(CostModelError, ValueError):
    """An argument is of a wrong type or out of range.

    As a ``ValueError`` it is told by msgspec with its place, where a file holds the argument.
    """


class MissingExtraError(CostModelError, ImportError):
    """An optional dependency is not installed.

    As an ``ImportError`` it is told by whatever imports modules and leaves out those that need more.
    """

    def __init__(self, purpose: str, extra: str) -> None:
        install = f"{sys.executable} -m pip install {_requirement(extra)}"
        super().__init__(f"{purpose} needs an optional package: run `{install}`.")


class DeviceUnavailableError(CostModelError):
    """A device cannot be opened on this machine."""


class SpaceExhaustedError(CostModelError):
    """Every config of a space has been tried, so the search ends."""


class InvalidConfigError(CostModelError):
    """No kernel can be made from a config. This is an outcome to learn from, not a program failure."""


def letters_and_digits(name: str) -> str:
    """Reduce a name to lower-case letters and digits, to compare spellings."""
    return re.sub("[^a-z0-9]", "", name.lower())


def did_you_mean(name: str, known: Iterable[str], key: Callable[[str], str] = letters_and_digits) -> str:
    """Suggest known names for an unknown one, as a question to append to an error message.

    The text begins with a space and offers up to three names: first those that contain this one, then those
    with a similar spelling. It is empty if no name is close.

    Args:
        name: The unknown name.
        known: The names that exist.
        key: Maps a name to the form that is compared. Default: its letters and digits, in lower case.

    Example:
        >>> did_you_mean("kernel_rige", ["kernel-ridge", "xgboost"])
        " Did you mean 'kernel-ridge'?"
    """
    names, wanted = {key(each): each for each in known}, key(name[:_MOST_NAME])
    holding = [each for each in names if wanted and wanted in each]
    alike = get_close_matches(wanted, names, n=3, cutoff=0.5)
    near = list(dict.fromkeys(names[each] for each in (*holding, *alike)))[:3]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def shorten(given: object, most: int = 200) -> str:
    """Write what was given into a message: its middle is left out where it is long.

    Example:
        >>> shorten("conv2d" * 1000, 20)
        'conv2dconv ... onv2d'
    """
    text = str(given)
    head = most // 2
    return text if len(text) <= most else f"{text[:head]} ... {text[head + 5 - most :]}"


def _requirement(extra: str) -> str:
    """Return the pip requirement of this package with an extra, from the origin of its installation."""
    try:
        origin = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        folder = unquote(urlsplit(origin["url"]).path)
        return f"-e {shlex.quote(f'{folder}[{extra}]')}"
    return f"'{_NAME}[{extra}] @ {origin['url']}'" if "url" in origin else f"'{_NAME}[{extra}]'"
