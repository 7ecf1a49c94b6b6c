"""Where stage jobs run: processes of this machine, or workers of Dask distributed or Ray on any machines."""

from costmodel.engines._base import (
    Engine,
    EngineLostError,
    EngineWorker,
    Job,
    WorkerDiedError,
    WorkerStartError,
)
from costmodel.engines._dask import DaskEngine
from costmodel.engines._local import LocalEngine
from costmodel.engines._open import open_engine
from costmodel.engines._ray import RayEngine

__all__ = [
    "DaskEngine",
    "Engine",
    "EngineLostError",
    "EngineWorker",
    "Job",
    "LocalEngine",
    "RayEngine",
    "WorkerDiedError",
    "WorkerStartError",
    "open_engine",
]
