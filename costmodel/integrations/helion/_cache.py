"""Helion's own cache beside a record store, so that processes and machines share what it found."""

from collections.abc import Iterable

import msgspec
from helion.autotuner.remote_cache import RemoteCacheBackend

from costmodel.databases import is_database
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._timings import find_store
from costmodel.reading import refusing
from costmodel.records._line_file import open_log

_WHAT = "cache of Helion"


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What Helion found, in its own words.

    Attributes:
        key: Helion's, which names the device.
        platform: The part of the device that it was found on, of which Helion's key knows nothing.
        data: What was found.
    """

    key: str
    platform: str
    data: str


class StoreBackend(RemoteCacheBackend):  # type: ignore[misc]
    """Keeps Helion's cache where ``$COSTMODEL_TRITON_STORE`` has timings: beside the file or in the database.

    What is found on a part of a device is given to kernels that have the same part. Of entries of one key the
    last counts, as in Helion's own cache.

    Example:
        Environment of a process: ``HELION_AUTOTUNE_CACHE=RemoteAutotuneCache`` and
        ``HELION_REMOTE_CACHE_BACKEND=costmodel.integrations.helion.StoreBackend``.
    """

    def __init__(self) -> None:
        place = find_store(None)
        self._log = open_log(place if is_database(place) else f"{place}.helion.jsonl", _WHAT)
        self._known: dict[tuple[str, str], str] = {}

    def get(self, key: str) -> str | None:
        """Return what was found last; None if nothing was."""
        self._refresh()
        return self._known.get((key, current_platform().name))

    def put(self, key: str, data: str) -> None:
        """Keep what was found."""
        self._log.append([msgspec.json.encode(_Entry(key, current_platform().name, data))])

    def list(self, max_results: int | None = None) -> Iterable[str]:
        """Return what was found here for any key, the newest first."""
        self._refresh()
        here = current_platform().name
        return [data for (_, where), data in reversed(self._known.items()) if where == here][:max_results]

    def _refresh(self) -> None:
        if self._log.start_over_if_replaced():
            self._known.clear()
        for _, record in self._log.read_new():
            with refusing(self._log.path, f"a {_WHAT}"):
                entry = msgspec.json.decode(record, type=_Entry)
            self._known.pop((entry.key, entry.platform), None)  # the newest is last
            self._known[entry.key, entry.platform] = entry.data
