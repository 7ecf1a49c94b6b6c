"""Names of workloads and spaces that other programs tuned."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._platform_file import PlatformFile
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._workload import Workload

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def foreign_workload(suite: str, name: str, identity: Any, dims: Mapping[str, int] | None = None) -> Workload:
    """Make the workload of a kernel of another program.

    Args:
        suite: The program.
        name: What the program calls the kernel.
        identity: All that tells the kernel from others of its name, but for its sizes.
        dims: Its sizes by letter, where they are known.
    """
    readable = re.sub(r"\W+", "_", name, flags=re.ASCII) or "kernel"
    return Workload(f"{suite}.{readable}.{content_id(identity)[:6]}", dict(dims or {}), "")


def workload_of_arguments(suite: str, name: str, arguments: list[Any]) -> Workload:
    """Make the workload of a kernel that is told from others by its arguments.

    Positive integers among the arguments are its sizes, with letters in order. All else enters its kind, so
    that two lists of arguments are never one workload.
    """
    sizes: list[int] = []
    rest = _replace_sizes(arguments, sizes)
    if len(sizes) > len(_LETTERS):
        sizes, rest = [], arguments
    return foreign_workload(suite, name, [name, *rest], dict(zip(_LETTERS, sizes, strict=False)))


def find_given_workload(where: PlatformFile | None, options: ReadOptions) -> Workload | None:
    """Return the workload that the platform file or the options name for all of a file; None if none."""
    if where and where.workload:
        return where.workload
    return options.workloads[0] if len(options.workloads) == 1 else None


def make_candidate(
    suite: str, workload: Workload, decisions: Mapping[str, Decision], given: Workload | None
) -> Candidate:
    """Make the candidate of a config.

    Args:
        suite: The program.
        workload: What the program calls the workload.
        decisions: What was chosen.
        given: The workload that the user names instead; what the program calls it is then a decision.
    """
    chosen = dict(decisions) if given is None else {**decisions, f"{suite}.kernel": workload.name}
    return Candidate(given or workload, name_space(suite, chosen), Config(chosen))


def name_space(suite: str, parameters: Iterable[str]) -> str:
    """Name the space of configs that have these parameters."""
    return f"{suite}-{content_id(sorted(parameters))[:6]}"


def _replace_sizes(value: Any, sizes: list[int]) -> Any:
    """Replace positive integers by 1, and append them to ``sizes``."""
    if isinstance(value, list):
        return [_replace_sizes(each, sizes) for each in value]
    if type(value) is int and 1 <= value < 2**53:
        sizes.append(value)
        return 1
    return value
