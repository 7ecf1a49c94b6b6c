"""Errors that a user can act on, and texts of errors of other packages."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, distribution

_NAME = "sm-costmodel"


class CostModelError(Exception):
    """A condition outside the program does not hold.

    The message says what must hold, what was found and what to do. The command line prints it without a
    traceback, and exits with code 2.
    """


class MissingExtraError(CostModelError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        install = f"{sys.executable} -m pip install {_requirement(extra)}"
        super().__init__(f"{purpose} needs an optional package: run `{install}`.")


class DeviceUnavailableError(CostModelError):
    """A device cannot be opened on this machine; other machines may be able to."""


class SpaceExhaustedError(CostModelError):
    """Every config of a space has been tried, so a search ends."""


class InvalidConfigError(CostModelError):
    """A config that makes no kernel: an outcome to learn from, not a failure of the program."""


def letters_and_digits(name: str) -> str:
    """What of a name counts where people misspell it."""
    return re.sub("[^a-z0-9]", "", name.lower())


def did_you_mean(name: str, known: Iterable[str], key: Callable[[str], str] = letters_and_digits) -> str:
    """What stands behind a message on an unknown name: a question, with a space before it, or nothing.

    It offers up to three names: first those that hold this one, then those spelled like it.

    Args:
        name: What was got.
        known: The names that there are.
        key: What of a name is compared.

    Example:
        >>> did_you_mean("kernel_rige", ["kernel-ridge", "xgboost"])
        " Did you mean 'kernel-ridge'?"
    """
    names, wanted = {key(each): each for each in known}, key(name)
    holding = [each for each in names if wanted and wanted in each]
    alike = get_close_matches(wanted, names, n=3, cutoff=0.5)
    near = list(dict.fromkeys(names[each] for each in (*holding, *alike)))[:3]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def last_line(error: BaseException) -> str:
    """The last line of a message, where TVM and compilers say what went wrong.

    Behind it TVM repeats the command of a linker that failed.
    """
    lines = [line.strip(" \t\0") for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith("Command line:")]
    return (said[-1] if said else type(error).__name__)[:300]


def _requirement(extra: str) -> str:
    """What pip is to install: this package with an extra, from where it was installed from."""
    try:
        origin = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        return f"-e '{origin['url'].removeprefix('file://')}[{extra}]'"
    return f"'{_NAME}[{extra}] @ {origin['url']}'" if "url" in origin else f"'{_NAME}[{extra}]'"
