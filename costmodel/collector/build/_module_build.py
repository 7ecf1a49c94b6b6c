"""Builds modules of any kind in persistent worker processes."""

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from costmodel.collector._engine import Engine, WorkerDiedError
from costmodel.collector.processes._held_folder import HeldFolder
from costmodel.failures import last_line
from costmodel.kernels._built import Built
from costmodel.kernels.metaschedule._build import compile_module
from costmodel.records._measurement import Outcome


class ModuleSource(NamedTuple):
    """A scheduled module, as text.

    Attributes:
        program: The ``tvm.IRModule``, by ``tvm.ir.save_json``.
        target: JSON of the target's fields.
    """

    program: str
    target: str


class ModuleBuilders:
    """Build workers for modules of one kind of device: each pays for TVM's import once in its life.

    Each library is the only file of a folder of its own, which whoever has measured it may delete; what is
    left is deleted with the workers.
    """

    def __init__(self, start_workers: Callable[[Path], Engine], timeout_s: float) -> None:
        """Make the folder.

        Args:
            start_workers: Gives workers that put temporary files into a folder: ``start_build_workers`` with
                all arguments but the last.
            timeout_s: Seconds after which a build is given up.
        """
        self._timeout_s = timeout_s
        self._folder = HeldFolder("costmodel-modules-")
        self._workers = start_workers(self._folder.path)

    def build(self, sources: Sequence[ModuleSource]) -> list[Built]:
        """Build modules side by side: one result each, in order, failures included."""
        jobs = [
            self._workers.submit(build_module, source, self._folder.path, timeout_s=self._timeout_s)
            for source in sources
        ]
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: "Future[Built]") -> Built:
        try:
            return job.result()
        except TimeoutError:
            return Built(Outcome.TIMEOUT, error=f"the build took more than {self._timeout_s:g} s")
        except WorkerDiedError as error:
            return Built(Outcome.COMPILE_ERROR, error=f"the build worker died ({error.reason})")

    def close(self) -> None:
        """End the processes and delete what they built. May be called twice."""
        self._workers.close()
        self._folder.delete()


def build_module(source: ModuleSource, folder: Path) -> Built:
    """Compile a module to a shared library in a new folder in ``folder``; runs in a worker process."""
    import tvm

    own = Path(tempfile.mkdtemp(prefix="module-", dir=folder))
    try:
        target = tvm.target.Target(json.loads(source.target))
        library = own / "module.so"
        compile_module(tvm.ir.load_json(source.program), target).export_library(str(library))
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is this module's outcome)
        shutil.rmtree(own, ignore_errors=True)
        return Built(Outcome.COMPILE_ERROR, error=last_line(error))
    return Built(Outcome.OK, library)
