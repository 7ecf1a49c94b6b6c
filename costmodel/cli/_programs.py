"""What ``kernels check`` and ``tune`` do with a program that launches Triton kernels of its own."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import SEARCH, number_option, said
from costmodel.cli._output import in_words, print_line, print_table, write_json
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels.triton._source import is_triton_program
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.integrations.triton._apart import RankedKernel

_SHOWN = 8  # configs, and reasons why others were not read


TimeLimitOption = Annotated[
    float,
    number_option(
        "above 0 and at most 1,000,000",
        lambda seconds: 0 < seconds <= 1e6,
        "--time-limit",
        metavar="SECONDS",
        help="Seconds that a program may go on without launching a Triton kernel that is new. It is ended "
        "then, and what it launched counts.",
        rich_help_panel=SEARCH,
    ),
]


def is_program(context: typer.Context, path: str, *taken: str) -> bool:
    """Tell whether a command is given a program with Triton kernels, and not another kind of kernel.

    Args:
        context: That of the command.
        path: What it is given.
        taken: Names of the parameters that say something of a program.

    Raises:
        CostModelError: An option was given that says nothing of what it is.
    """
    given, is_one = said(context), is_triton_program(path)
    wrong = given - {*taken} if is_one else given & {"time_limit"}
    if not wrong:
        return is_one
    options = [max(each.opts, key=len) for each in context.command.params if each.name in wrong]
    kinds = ("family or workload", "program") if is_one else ("program", "family or workload")
    raise CostModelError(
        f"{', '.join(options)} must be given of a {kinds[0]}, of which alone that says something, but {path} "
        f"is a {kinds[1]}."
    )


def rank_kernels(
    file: Path,
    device: str | None,
    sms: Sequence[int],
    time_limit_s: float,
    json: Path | None,
    *,
    hint: str = "",
) -> None:
    """Print the configs of each kernel that a program launches, by what is read of them."""
    _check_installed()
    from costmodel.integrations.triton._apart import DEFAULT_DEVICE, rank_program
    from costmodel.products._model import meant_gpu
    from costmodel.records._device_table import find_device
    from costmodel.transfer._read_ranker import LEARNED_ARCHITECTURE

    found = [
        kernel
        for each in sms or (None,)
        for kernel in rank_program(file, device=device or DEFAULT_DEVICE, sms=each, time_limit_s=time_limit_s)
    ]
    _print(file, found)
    print_line(
        "Times are relative to the mean of a kernel's configs; nine in ten are between those in brackets."
    )
    gpu = find_device(meant_gpu(device or DEFAULT_DEVICE))
    if gpu.architecture != LEARNED_ARCHITECTURE:
        print_line(
            f"The model of configs learned from an H100. How well it orders them on the {gpu.name} was not "
            f"measured: time some there, with `costmodel tune {file} --runner cuda`."
        )
    if hint:
        print_line(hint)
    write_json(json, found)


def time_kernels(file: Path, sms: Sequence[int], trials: int, time_limit_s: float, json: Path | None) -> None:
    """Run a program on this GPU, and print what its kernels took with each config that was timed."""
    _check_installed()
    from costmodel.integrations.triton._apart import tune_program

    found = [
        kernel
        for each in sms or (None,)
        for kernel in tune_program(file, sms=each, trials=trials, time_limit_s=time_limit_s)
    ]
    _print(file, found)
    write_json(json, found)


def _check_installed() -> None:
    """Check for Triton and torch.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    for package in ("triton", "torch"):
        if find_spec(package) is None:
            raise MissingExtraError("Running a program with Triton kernels", package)


def _print(file: Path, kernels: "Sequence[RankedKernel]") -> None:
    for kernel in kernels:
        told = ", ".join(f"{name}={value}" for name, value in kernel.launch.items())
        print_line(f"{kernel.name}({told})", "bold")
        rows = [
            (str(time), in_words(config) + (" (as launched)" if config == kernel.own else ""))
            for place, (time, config) in enumerate(zip(kernel.expected, kernel.configs, strict=True))
            if place < _SHOWN or config == kernel.own
        ]
        if rows:
            title = f"on {kernel.platform}, the fastest first, {len(rows)} of {len(kernel.configs)} configs"
            print_table(TextTable(title, ("expected", "config"), rows, "rw"))
        if kernel.is_guessed:
            print_line(
                "Data in memory decide how often its loops turn, which is not read: they were taken to go "
                "over 64 numbers, or to turn eight times. With other data the order may be another."
            )
        for why, count in list(kernel.unread.items())[:_SHOWN]:
            print_line(f"{count} configs were not read: {why}")
    for reason in dict.fromkeys(kernel.ended_by for kernel in kernels if kernel.ended_by):
        print_line(f"{file} did not run to its end, and what it launched before counts: {reason}")
