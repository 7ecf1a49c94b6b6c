"""Engines by an address."""

from typing import Any
from urllib.parse import urlsplit

from costmodel.collector._engine import Engine
from costmodel.collector._local_engine import LocalEngine
from costmodel.errors import CostModelError
from costmodel.service._builder_pool import PoolEngine, parse_socket
from costmodel.service._dask import DaskEngine
from costmodel.service._ray import RayEngine


def open_engine(address: str = "local://", **settings: Any) -> Engine:
    """Open an engine by its address.

    Args:
        address: ``local://`` for processes of this machine, one per hardware thread, or ``local://16`` for
            16; ``unix:///run/builders.sock`` for the builders that workers of this machine share;
            ``tls://host:8786`` for the Dask scheduler there, and ``tcp://localhost:8786`` for one on this
            machine; ``ray://host:10001`` for the Ray there, and ``ray://`` for one on this machine, which is
            started unless this process is connected to one.
        settings: Settings of ``LocalEngine``, ``PoolEngine``, ``DaskEngine`` or ``RayEngine``.

    Raises:
        CostModelError: If there is no such engine, or it cannot be opened.

    Example:
        >>> with open_engine("local://2") as engine:
        ...     engine.submit(divmod, 7, 2).result()
        (3, 1)
    """
    parts = urlsplit(address)
    if address == "local://":
        return LocalEngine(**settings)
    if parts.scheme == "local" and parts.netloc.isdecimal() and int(parts.netloc) > 0:
        return LocalEngine(int(parts.netloc), **settings)
    if parts.scheme == "unix":
        return PoolEngine(parse_socket(address), **settings)
    if parts.scheme in ("tls", "tcp") and parts.netloc:
        return DaskEngine(address, **settings)
    if address == "ray://":
        return RayEngine(**settings)
    if parts.scheme == "ray" and parts.port:
        return RayEngine(address, **settings)
    raise CostModelError(
        f"An engine's address must be local://, local://16 (processes), unix:///run/builders.sock (builders "
        f"of this machine), tls://host:8786 or tcp://localhost:8786 (a Dask scheduler), or ray:// or "
        f"ray://host:10001 (Ray), but got {address!r}."
    )
