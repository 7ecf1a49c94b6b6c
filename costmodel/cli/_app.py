"""The application: its commands, and how it ends."""

import errno
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from costmodel.cli._options import PlainCommand, PlainGroup
from costmodel.cli._output import fit_console, log_printable, print_error, what_is_left
from costmodel.errors import CostModelError
from costmodel.printable import make_printable
from costmodel.version import __version__

# By name, in the order of the help: where the function or sub-application is, first line of its help.
COMMANDS = {
    "tune": (
        "costmodel.cli.tune:tune",
        "Find the fastest kernel for a given number of SMs, measuring only a shortlist of candidates.",
    ),
    "kernels": (
        "costmodel.cli.kernels:app",
        "List the available kernels, or check a CUDA or Triton kernel of your own.",
    ),
    "plan": (
        "costmodel.cli.plan:plan",
        "Show how long a model takes, estimate the effect of changes, and rank the kernels to tune next.",
    ),
    "serve-tables": (
        "costmodel.cli.serve_tables:app",
        "Write the tables of a model for a GPU, without that GPU or with timings of it, or check tables.",
    ),
    "model": (
        "costmodel.cli.model:app",
        "Describe a trained model, or use it to rank the kernels of a workload.",
    ),
    "train": (
        "costmodel.cli.train:train",
        "Train a model on a dataset and save it to one file, without pickle.",
    ),
    "evaluate": (
        "costmodel.cli.evaluate:evaluate",
        "Compare learners on held-out workloads, each held out in turn with all its SM budgets.",
    ),
    "bench": (
        "costmodel.cli.bench:app",
        "Compare cost models on questions that none has seen, write these as files, and check submissions.",
    ),
    "collect": (
        "costmodel.cli.collect:app",
        "Measure the kernels of a campaign at each of its SM budgets.",
    ),
    "dataset": (
        "costmodel.cli.dataset:app",
        "Build a dataset from record stores or files of other programs; check, describe, split or export it.",
    ),
    "records": (
        "costmodel.cli.records:app",
        "Carry measurements from one record store to another, or forget some, so that they are made again.",
    ),
    "jobs": (
        "costmodel.cli.jobs:app",
        "Queue tuning jobs in a database, and run them with any number of worker processes.",
    ),
    "capacity": (
        "costmodel.cli.capacity:capacity",
        "Simulate tuning with more builders and more GPUs, from measured times.",
    ),
    "place": (
        "costmodel.cli.place:place",
        "Place the layers of a model on accelerators, on slices of their SMs, and on CPUs.",
    ),
    "workloads": (
        "costmodel.cli.workloads:app",
        "List the workloads of well-known networks, extract workloads from networks, or draw similar ones.",
    ),
    "devices": (
        "costmodel.cli.devices:app",
        "List the known GPUs, or show the peak rates of a GPU or of part of its SMs.",
    ),
    "experiments": (
        "costmodel.cli.experiments:app",
        "List, show and compare tracked runs, or log the results of a script as a run.",
    ),
}


# A command line that Typer refuses; it exports the class under no name.
_UsageError: Any = typer.BadParameter.__base__
# What a disk can do at any write, and no check before can rule out.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class _Commands(PlainGroup):
    """The commands of ``COMMANDS``, imported on call; errors for the user become one line and exit code 2."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        # What the help lists and a misspelt name is compared with: without the commands behind them.
        self.commands = {name: PlainCommand(name, help=line) for name, (_, line) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _load(COMMANDS[name][0]) if name else command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CostModelError as error:
            print_error(f"Error: {error}")
            raise typer.Exit(2) from None
        except _UsageError as error:
            error.message = make_printable(error.message, keep_lines=True)
            raise
        except KeyboardInterrupt as interrupt:
            said = [*(interrupt.args or [what_is_left(ctx)]), *getattr(interrupt, "__notes__", ())]
            print_error(f"Interrupted. {' '.join(map(str, said))}")
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno not in _DISK_ERRORS:
                raise
            print_error(f"Error: Cannot write {error.filename or 'a file'}: {error.strerror}.")
            raise typer.Exit(2) from None


def _load(target: str) -> Any:
    """The command ``module:function``, or the group of commands ``module:app``."""
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(cls=PlainCommand)(found)
    return get_command(single)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"costmodel {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A cost model for kernel autotuning on shared GPUs that ranks kernels for a given number of SMs.

    Examples:
    - `costmodel tune matmul-m16-n1024-k1024 --sms 32` replays recorded measurements: no GPU is needed.
    - `costmodel kernels check my_kernel.py --device H200` orders the configs of a program's Triton kernels.
    - `costmodel plan trace.json.gz --what-if graphs` tells what a change of a recorded model would bring.
    """
    fit_console()
    try:
        Path.cwd()
    except FileNotFoundError:
        raise CostModelError("The current folder must exist, but was deleted: change to another.") from None


def main() -> None:
    """Run the command line; exits with 0, with 2 on wrong input, with 130 when interrupted."""
    log_printable()
    sys.unraisablehook = _interrupt_again
    app(prog_name="costmodel")


def _interrupt_again(ignored: Any) -> None:
    """Deliver Ctrl-C again, a moment later, that came while a callback of Python ran, which ignores it."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        main_thread = threading.main_thread().ident
        threading.Timer(0.1, signal.pthread_kill, (main_thread, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(ignored)
