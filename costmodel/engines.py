"""Former place of names that are in ``costmodel.service`` and ``costmodel.collector`` now."""

from costmodel.collector._engine import Engine, EngineLostError
from costmodel.collector._local_engine import LocalEngine
from costmodel.service._dask import DaskEngine
from costmodel.service._open_engine import open_engine
from costmodel.service._ray import RayEngine

__all__ = ["DaskEngine", "Engine", "EngineLostError", "LocalEngine", "RayEngine", "open_engine"]
