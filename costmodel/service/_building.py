"""Where kernels of workers are built: processes here, an engine elsewhere, or builders that they share."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from costmodel.collector._engine import Engine, EngineLostError
from costmodel.collector._local_engine import LocalEngine
from costmodel.collector.runners._device_runner import default_builders
from costmodel.kernels._sources import SOURCES, builder_modules
from costmodel.liveness import HeldFolder
from costmodel.service._builder_pool import BuilderPool, parse_socket
from costmodel.service._open_engine import open_engine
from costmodel.service._store import JobStore
from costmodel.service._usage import Capacity, reporting
from costmodel.tuning._places import KeptRunner

# A scheduler that was lost is started again within this time, by whoever looks after it.
_BACK_S = 300.0


class Building:
    """What builds kernels for a worker and what measures them, kept from one task to the next.

    Attributes:
        kept: The runner of its device, which has processes of its own.

    Args:
        engine: An engine, which stays open; or the address of one, which is opened, and closed in the end; or
            None for processes here, which start with the first task that builds.

    Raises:
        CostModelError: There is no engine at the address.
    """

    def __init__(self, engine: Engine | str | None) -> None:
        self._asked = engine
        self._opened = open_engine(engine) if isinstance(engine, str) else None
        self._folder: HeldFolder | None = None
        self.kept = KeptRunner()

    def engine(self) -> Engine:
        """What builds now."""
        if isinstance(self._asked, Engine):
            return self._asked
        if self._opened is None:
            self._folder = HeldFolder("costmodel-builds-")
            self._opened = LocalEngine(default_builders(1), self._folder.path)
        return self._opened

    def reopen(self, error: EngineLostError) -> None:
        """Wait until an engine that was lost is there again.

        Raises:
            EngineLostError: It was not opened here.
            CostModelError: It does not come back.
        """
        if not isinstance(self._asked, str):
            raise error
        self.close()
        self._opened = open_engine(self._asked, connect_timeout_s=_BACK_S)

    def rest(self) -> None:
        """End processes here, which take memory, until there is something to do again."""
        self.kept.close()
        if self._asked is None:
            self.close()

    def close(self) -> None:
        """Close the runner, and an engine that was opened here. May be called twice."""
        self.kept.close()
        if self._opened:
            self._opened.close()
        if self._folder:
            self._folder.delete()
        self._opened = self._folder = None


def serve_builders(
    address: str,
    count: int | None,
    store: JobStore | None,
    tell: Callable[[str], None],
    sources: Sequence[str] = SOURCES,
) -> None:
    """Let this machine's workers build on processes of this one, until it is interrupted or terminated.

    From then on this process sees no GPU.

    Args:
        address: Such as ``unix:///tmp/builders.sock``.
        count: Number of processes. Default: one per hardware thread.
        store: Is told how busy they are; None for no store.
        tell: Called with what is there for the workers.
        sources: Names of the kernel sources whose compilers are imported beforehand. The others work, too.

    Raises:
        CostModelError: If the address is none, another pool has it, or there is no source of a name.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # no compiler that is imported opens a GPU
    path, folder = parse_socket(address), HeldFolder("costmodel-builds-")
    with ExitStack() as opened:
        opened.callback(folder.delete)
        engine = opened.enter_context(_open_builders(count, folder.path, sources))
        pool = BuilderPool(path, engine)
        opened.callback(pool.close)
        # Imports take seconds, in which workers already connect and open their devices.
        threading.Thread(target=_start, args=(engine,), daemon=True).start()
        if store:
            opened.enter_context(reporting(partial(_report, store, pool)))
        tell(f"Builders: {pool.places} at {address}")
        threading.Event().wait()


def _open_builders(count: int | None, folder: Path, sources: Sequence[str]) -> LocalEngine:
    """Processes forked from one that has imported the compilers of these kernel sources.

    So most imports are made once, not once for each builder, and one that hangs or dies is replaced at once.
    """
    ours = "costmodel.service._builder_pool", "costmodel.collector._builders"
    shared, unshared = builder_modules(sources)
    return LocalEngine(count, folder, partial(_import_each, unshared), modules=(*ours, *shared))


def _start(engine: LocalEngine) -> None:
    """Have the processes of an engine start, which they do with the first job, whatever it is."""
    with suppress(RuntimeError):  # it was closed meanwhile
        engine.submit(os.getpid)


def _import_each(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(ImportError):  # it is missed where it is needed
            import_module(name)


def _report(store: JobStore, pool: BuilderPool) -> None:
    store.report_usage({pool.stage: Capacity(pool.places, pool.waiting)})
