"""Builders that a worker keeps from one task to the next."""

from costmodel.collector.processes._held_folder import HeldFolder
from costmodel.collector.runners._device_runner import default_builders
from costmodel.engines._base import Engine, EngineLostError
from costmodel.engines._local import LocalEngine
from costmodel.engines._open import open_engine

# A scheduler that was lost is started again within this time, by whoever looks after it.
_BACK_S = 300.0


class Building:
    """The engine that a worker has kernels built by.

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
        """End processes here, which take memory, until there is something to build again."""
        if self._asked is None:
            self.close()

    def close(self) -> None:
        """Close an engine that was opened here. May be called twice."""
        if self._opened:
            self._opened.close()
        if self._folder:
            self._folder.delete()
        self._opened = self._folder = None
