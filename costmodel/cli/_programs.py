"""What ``kernels check`` and ``tune`` do with a program that launches Triton kernels of its own."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.cli._output import in_words, print_line, print_table, write_json
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.integrations.triton._ranking import RankedKernel

_SHOWN = 8  # configs, and reasons why others were not read


def refuse_options(given: Mapping[str, Any]) -> None:
    """Refuse options that say nothing of a program.

    Args:
        given: Options by what they are called; those that were not given are None.

    Raises:
        CostModelError: One was given.
    """
    if wrong := [name for name, value in given.items() if value]:
        raise CostModelError(
            f"{', '.join(wrong)} must be given of a family or workload, but the file is a program, which "
            "launches its kernels at sizes of its own."
        )


def rank_kernels(
    file: Path, device: str | None, sms: Sequence[int], json: Path | None, *, hint: str = ""
) -> None:
    """Print the configs of each kernel that a program launches, by what is read of them."""
    _check_installed()
    from costmodel.integrations.triton._ranking import DEFAULT_DEVICE, rank_program

    found = [
        kernel
        for each in sms or (None,)
        for kernel in rank_program(file, device=device or DEFAULT_DEVICE, sms=each)
    ]
    _print(found)
    if hint:
        print_line(hint)
    write_json(json, found)


def time_kernels(file: Path, sms: Sequence[int], trials: int, json: Path | None) -> None:
    """Run a program on this GPU, and print what its kernels took with each config that was timed."""
    _check_installed()
    from costmodel.integrations.triton._ranking import tune_program

    found = [kernel for each in sms or (None,) for kernel in tune_program(file, sms=each, trials=trials)]
    _print(found)
    write_json(json, found)


def _check_installed() -> None:
    """Check for Triton and torch.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    for package in ("triton", "torch"):
        if find_spec(package) is None:
            raise MissingExtraError("Running a program with Triton kernels", package)


def _print(kernels: "Sequence[RankedKernel]") -> None:
    for kernel in kernels:
        told = ", ".join(f"{name}={value}" for name, value in kernel.launch.items())
        print_line(f"{kernel.name}({told})", "bold")
        print_table(
            TextTable(
                f"on {kernel.platform}, the fastest first",
                ("expected", "config"),
                [
                    (str(time), in_words(config) + (" (as launched)" if config == kernel.own else ""))
                    for place, (time, config) in enumerate(zip(kernel.expected, kernel.configs, strict=True))
                    if place < _SHOWN or config == kernel.own
                ],
                "rw",
            )
        )
        for why, count in list(kernel.unread.items())[:_SHOWN]:
            print_line(f"{count} configs were not read: {why}")
