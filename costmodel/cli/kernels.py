"""``costmodel kernels``: the kernels that there are to choose from, and a check of one's own."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from costmodel.cli._options import CommandGroup, JsonOption, count_option, dims_of, seed_option
from costmodel.cli._output import in_words, print_line, print_table, write_json
from costmodel.cli._programs import TimeLimitOption, is_program, rank_kernels
from costmodel.kernels.triton._source import TIME_LIMIT_S
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.tuning._kernels import KernelEntry, KernelsCheck

app = CommandGroup()

_SHOWN = 8  # configs and failures, at most


@app.callback()
def _kernels() -> None:
    """List the available kernels, or check a CUDA or Triton kernel of your own."""


@app.command("list")
def list_(
    families: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Kernel families of your own: descriptions, Python files, or their folders.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """List the kernel sources, and the CUDA and Triton families with their number of configs.

    Examples:
    - `costmodel kernels list --json out/kernels.json`
    """
    from costmodel.tuning._kernels import list_kernels

    entries = list_kernels(families or ())
    _print_entries(entries)
    write_json(json, entries)


@app.command()
def check(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Description of a CUDA kernel, Python file of a Triton family, a folder of either, or a "
            "program that launches Triton kernels, which is run.",
        ),
    ],
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="DIM=N,...",
            help="Sizes of the workload, such as `m=64,n=64`. Default: those of the description.",
            show_default=False,
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="SM",
            help="Architecture to compile for, such as `sm_80`. Default: that of the device.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="GPU that times of a Triton kernel are expected on, see `costmodel devices list`. Default: "
            "this machine's with --runner cuda, else the first of the architecture, or an H100.",
            show_default=False,
        ),
    ] = None,
    sms: Annotated[
        int | None, count_option(help="SMs that the kernel has there. Default: all.", show_default=False)
    ] = None,
    configs: Annotated[
        int, count_option(help="Number of configs to compile: the default config, and others at random.")
    ] = 16,
    seed: Annotated[int, seed_option("Seed of the random configs.")] = 0,
    runner: Annotated[
        Literal["cuda", "interpreter"] | None,
        typer.Option(
            help="Also run the configs and compare with the reference: on this GPU, or in Triton's "
            "interpreter on the CPU, "
            "which needs torch and small dims.",
            show_default=False,
        ),
    ] = None,
    time_limit: TimeLimitOption = TIME_LIMIT_S,
    json: JsonOption = None,
) -> None:
    """Check a CUDA or Triton kernel of your own: read it, count its configs, compile some. Needs no GPU.

    Configs of a Triton kernel are listed by the time that they should take by what is read of each, relative
    to their mean; so are those of each kernel that a program of your own launches, with its arguments. Exits
    with 1 if no config can be used.

    Examples:
    - `costmodel kernels check my-kernels/transpose --dims m=64,n=64 --configs 32`
    - `costmodel kernels check my_kernel.py --device A100-SXM4-80GB --sms 32`
    """
    if is_program(context, str(path), "path", "device", "sms", "time_limit", "json"):
        rank_kernels(path, device, () if sms is None else (sms,), time_limit, json)
        return
    from costmodel.tuning._kernels import check_kernels

    found = check_kernels(
        path,
        dims=dims_of(dims),
        architecture=architecture,
        device=device,
        sms=sms,
        configs=configs,
        seed=seed,
        runner=runner,
    )
    _print_check(found)
    write_json(json, found)
    if found.failed:
        raise typer.Exit(1)


def _print_entries(entries: "list[KernelEntry]") -> None:
    rows = [
        (
            f"{entry.source} {entry.name}".rstrip(),
            "-" if entry.configs is None else f"{entry.configs:,}",
            entry.workload,
        )
        for entry in entries
    ]
    print_table(TextTable("Kernels", ("source, family", "configs", "workload"), rows, "lrl"))


def _print_check(found: "KernelsCheck") -> None:
    compiled = found.compiled
    size = "more configs than can be listed" if compiled.size is None else f"{compiled.size:,} configs"
    print_line(f"{compiled.workload.name}: {size}, space {compiled.space}", "bold")
    print_line(
        f"{compiled.compiled} of {len(compiled.configs)} compiled for {compiled.architecture}, "
        f"{compiled.median_seconds:.2f} s each."
    )
    _print_failures("failures of the compiler", compiled.failures)
    _print_expected(found)
    if found.measured_on:
        print_line(found.measured_on)
        _print_measured(found)
    if found.interpreted is not None:
        wrong = Counter(why for why in found.interpreted if why)
        right = len(found.interpreted) - wrong.total()
        print_line(f"{right} of {len(found.interpreted)} are right in Triton's interpreter.")
        _print_failures("wrong in Triton's interpreter", dict(wrong.most_common()))
    for remark in compiled.remarks:
        print_line(f"Note: {remark}")


def _print_expected(found: "KernelsCheck") -> None:
    usable = [each for each in found.compiled.configs if each.outcome == "ok"]
    told = [(each, check) for each, check in zip(found.expected, usable, strict=False) if each is not None]
    rows = [
        (f"{each.expected:.2f}", f"{each.low:.2f} to {each.high:.2f}", in_words(check.config))
        for each, check in sorted(told, key=lambda pair: pair[0])[:_SHOWN]
    ]
    if rows:
        title = f"expected on {found.expected_on}, the fastest first"
        print_table(TextTable(title, ("time / mean", "nine in ten", "config"), rows, "rlw"))


def _print_failures(title: str, failures: dict[str, int]) -> None:
    if failures:
        rows = [(str(count), why) for why, count in list(failures.items())[:_SHOWN]]
        print_table(TextTable(title, ("configs", "why"), rows, "rw"))


def _print_measured(found: "KernelsCheck") -> None:
    rows = []
    for each in sorted(found.measured, key=lambda each: each.latency_s)[:_SHOWN]:
        latency = f"{each.latency_s * 1e6:.3g}" if each.latencies_s else "-"
        outcome = f"{each.outcome} {each.error}".rstrip()
        rows.append((latency, outcome, in_words(each.candidate.config)))
    print_table(TextTable("on the GPU, the fastest first", ("us", "outcome", "config"), rows, "rlw"))
