"""Commands in processes of their own, forked from one that has the package, with bounds and a verdict."""

import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import re
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import costmodel
from costmodel.__main__ import run_program
from costmodel.collector.runners._watched_service import LatencyLog
from costmodel.dataset.publish._card import read_card_header
from costmodel.dataset.splits._file import read_split
from costmodel.dataset.table._read import load_dataset
from costmodel.errors import CostModelError
from costmodel.evaluation._config import EvaluationConfig
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.metaschedule import _apart
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.planner.placement._problem import read_placed_nodes, read_placement
from costmodel.search._dispatch import load_dispatch_table
from costmodel.tracking._describe import describe_folder
from costmodel.transfer.prediction._model import load_model
from costmodel.workloads._programs import read_calls

MOST_S = 20.0
MOST_BYTES = 2 * 2**30
_OWN_FAULT = 70  # what a child exits with where a command raises
_INTERRUPTED = 130
_TOO_LONG = -1


def _read_database(sms: int, path: Path) -> None:
    """Read a database of the plug-in for TVM: all records of an SM budget, and the best kernels."""
    from costmodel.integrations.tvm._database import Database
    from costmodel.integrations.tvm._program import named_platform

    database = Database(path, named_platform("NVIDIA H100 80GB HBM3", sms))
    for record in database.get_all_tuning_records():
        database.best_for(record.workload.mod)


def _read_knowledge(path: Path) -> None:
    from costmodel.integrations.tvm._model_file import load

    load(path)


def _read_timings(path: Path) -> None:
    """Read a store of the drop-in for Triton, as an autotuner does and as an export does."""
    from costmodel.integrations.triton._export import dispatch_table
    from costmodel.integrations.triton._timings import open_store

    open_store(path).of_family("matmul")
    dispatch_table(path)


# Readers that no command calls, or only behind long work.
CALLS: dict[str, Callable[..., object]] = {
    "load_dispatch_table": load_dispatch_table,
    "load_model": load_model,
    "read_card": read_card_header,
    "read_evaluation": EvaluationConfig.load,
    "read_family": CudaFamily.load,
    "read_placed": lambda problem, split: read_placed_nodes(split, read_placement(problem)),
    "read_split": lambda folder, split: read_split(load_dataset(folder), split.stem),
    "read_latencies": lambda log: LatencyLog(log).read(),
    "describe_folder": lambda folder: list(describe_folder(folder)),
    "read_calls": lambda module: read_calls(str(module)),
    "read_program": lambda program: ProgramSource.open(str(program)),
    "read_tvm_database": functools.partial(_read_database, 32),
    "read_tvm_database_elsewhere": functools.partial(_read_database, 132),
    "read_tvm_model": _read_knowledge,
    "read_triton_store": _read_timings,
}
# What starts something when it is imported, or takes seconds.
_NOT_LOADED = (
    "costmodel.__main__",
    "costmodel.integrations",
    "costmodel.kernels.triton",
    "costmodel.testing",
)
# What remembers something of a command; see ``load_modules``.
_CACHES: list[Any] = []
# What a command may say of an input that it refuses.
_REFUSALS = ("Error: ", "Usage: ", "Interrupted.")


@dataclass(frozen=True)
class Verdict:
    """What became of a command.

    Attributes:
        fault: What is wrong with it; empty where it succeeded or refused in a sentence.
        said: What it wrote, at its end.
        seconds: How long it took.
        is_refusal: Whether it refused.
    """

    fault: str
    said: str
    seconds: float
    is_refusal: bool


def load_package() -> None:
    """Import all that commands need, once for all that are forked from here."""
    for module in pkgutil.walk_packages(costmodel.__path__, "costmodel."):
        if not module.name.startswith(_NOT_LOADED):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)


def load_modules(names: Iterable[str]) -> None:
    """Import modules once for all that are forked from here, and keep what is here out of their way."""
    for name in sorted(set(names)):
        with contextlib.suppress(ImportError):  # what only a package that is loaded otherwise can import
            importlib.import_module(name)
    if "tvm" in sys.modules:
        _apart._start = ForkedWorker
    gc.collect()
    caches = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]
    _CACHES[:] = [each for each in caches if each.__module__.startswith("costmodel") and _is_of_input(each)]
    gc.freeze()  # or each process would copy it all, to count references


def _is_of_input(cache: Any) -> bool:
    """Whether what a cache remembers may be of an input: all but processes, which serve the next one too."""
    return cache.__name__ != "_shared_worker"


class ForkedWorker:
    """A process for ``call_apart`` that is forked from here, where TVM is loaded.

    To load TVM takes most of the time of a command that reads programs or traces.
    """

    def __init__(self) -> None:
        questions, answers = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self._id = os.fork()
        if not self._id:
            for descriptor, end in enumerate((questions[0], answers[1], os.open(os.devnull, os.O_WRONLY))):
                os.dup2(end, descriptor)
            os.closerange(3, 1024)  # a pipe ends once all of its ends are closed
            resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
            sys.stdin = os.fdopen(0)
            _apart._serve()
            os._exit(0)
        os.close(questions[0])
        os.close(answers[1])
        self.stdin, self.stdout = os.fdopen(questions[1], "wb"), os.fdopen(answers[0], "rb")
        self.stdout.readline()  # that it is ready

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        self._wait(os.WNOHANG)
        return self.returncode

    def kill(self) -> None:
        """End it."""
        if self.poll() is None:
            os.kill(self._id, signal.SIGKILL)

    def wait(self, _: float) -> None:
        """Wait for its end, which the closed end of its pipe has told."""
        self._wait(0)

    def communicate(self) -> None:
        """Wait for its end."""
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._wait(0)

    def _wait(self, options: int) -> None:
        if self.returncode is None and (ended := os.waitpid(self._id, options))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])


def run(
    arguments: Sequence[str],
    folder: Path,
    *,
    after_s: float | None = None,
    signal_: int = signal.SIGINT,
    imported: Path | None = None,
) -> Verdict:
    """Run a command and judge how it ends.

    Args:
        arguments: Those of ``costmodel``.
        folder: Where it runs.
        after_s: Seconds until it gets a signal; None for none.
        signal_: The signal.
        imported: A file to which the names of modules that it imports are appended.
    """
    said = _beside(folder, "said")
    started = time.monotonic()
    child = os.fork()
    if not child:
        os._exit(_do(functools.partial(_call, arguments, imported), folder, said))
    status, peak_bytes = _wait(child, after_s, signal_)
    seconds = time.monotonic() - started
    text = said.read_text(errors="replace") if said.exists() else ""  # it may be killed before
    said.unlink(missing_ok=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return Verdict(
        _fault(status, text, peak_bytes, after_s, signal_), text[-3000:], seconds, status == 2 << 8
    )


def _call(arguments: Sequence[str], imported: Path | None) -> None:
    before = set(sys.modules) if imported else set()
    try:
        if arguments[0] in CALLS:
            CALLS[arguments[0]](*map(Path, arguments[1:]))
        else:
            sys.argv = ["costmodel", *arguments]
            run_program()
    except CostModelError as error:  # of a call: the command line tells its own
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        if imported:
            with imported.open("a") as names:
                names.write("".join(f"{name}\n" for name in set(sys.modules) - before))


def run_together(commands: Sequence[tuple[Sequence[str], Path]]) -> list[Verdict | None]:
    """Run commands one after the other in one process, and judge each that held.

    A process costs more than most commands do. What is remembered of a command is forgotten before the next.

    Args:
        commands: Arguments and folder of each.

    Returns:
        None for a command that did not hold, or that nothing can be said of: run it alone.
    """
    child = os.fork()
    if not child:
        for arguments, folder in commands:
            code = _do(functools.partial(_call, arguments, None), folder, _beside(folder, "said"))
            _beside(folder, "code").write_text(str(code))
            for cache in _CACHES:
                cache.cache_clear()
        os._exit(0)
    _, peak_bytes = _wait(child, None, signal.SIGINT)
    return [_verdict_beside(folder, peak_bytes) for _, folder in commands]


def _verdict_beside(folder: Path, peak_bytes: int) -> Verdict | None:
    """The verdict on one of several commands; None unless it held."""
    said, told = _beside(folder, "said"), _beside(folder, "code")
    text = said.read_text(errors="replace") if said.exists() else ""
    code = int(told.read_text() or -1) if told.exists() else -1
    for path in (said, told):
        path.unlink(missing_ok=True)
    fault = code < 0 or _fault(code << 8, text, peak_bytes, None, signal.SIGINT)
    return None if fault else Verdict("", text[-3000:], 0.0, code == 2)


def _beside(folder: Path, what: str) -> Path:
    return folder.with_name(f"{folder.name}.{what}")


def _do(call: Callable[[], None], folder: Path, said: Path) -> int:
    """Do a call, as a process of its own would, with all that it writes in a file; its exit code."""
    code = _OWN_FAULT
    gc.freeze()  # what ends badly of what was there before is no fault of the call
    try:
        descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        # In place of whatever stands there under a test. A file that owned its descriptor would warn, when
        # the next command's takes its place, that nobody closed it, as if that command had said so.
        sys.stdout = sys.stderr = open(1, "w", 1, closefd=False)  # noqa: SIM115
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (2 * MOST_BYTES, 2 * MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        call()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 (each is a fault to be told)
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    return code


def _wait(child: int, after_s: float | None, signal_: int) -> tuple[int, int]:
    """Wait for a child within the time limit; its status, and the most memory that it had.

    Time that it waits for a processor, as other processes have them all, does not count.
    """
    started, is_late = time.monotonic(), False
    handle = os.pidfd_open(child)
    try:
        while not select.select([handle], [], [], 0.01 if after_s is not None else 0.25)[0]:
            taken_s = time.monotonic() - started
            if after_s is not None and taken_s >= after_s:
                os.kill(child, signal_)
                after_s = None
            if is_late := taken_s > MOST_S and taken_s - _queued_s(child) > MOST_S:
                os.kill(child, signal.SIGKILL)
                break
        _, status, usage = os.wait4(child, 0)
    finally:
        os.close(handle)
    return (_TOO_LONG if is_late else status), usage.ru_maxrss * 1024


def _queued_s(process: int) -> float:
    """Seconds that a process and its children waited for a processor (Linux, scheduler/sched-stats)."""
    seconds = 0.0
    with contextlib.suppress(OSError):  # a child that ended just now
        seconds = int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        seconds += sum(_queued_s(int(child)) for child in children)
    return seconds


def _fault(status: int, text: str, peak_bytes: int, after_s: float | None, signal_: int) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    code = -1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    killed = code == -1 and after_s is not None and signal_ == signal.SIGKILL
    # What `dataset validate` and `diff` find is told by 1.
    raised = "Traceback (most recent call last)" in text or code not in (-1, 0, 1, 2, _INTERRUPTED)
    faults = {
        f"took more than {MOST_S:.0f} s": status == _TOO_LONG,
        f"took {peak_bytes / 2**30:.1f} GB": peak_bytes > MOST_BYTES,
        f"ended by signal {os.WTERMSIG(status)}": code == -1 and not killed,
        f"raised, with exit code {code}": raised,
        "interrupted by itself": code == _INTERRUPTED and after_s is None,
        "refused without a sentence": code == 2 and not any(refusal in text for refusal in _REFUSALS),
    }
    return next((fault for fault, is_so in faults.items() if is_so), "")
