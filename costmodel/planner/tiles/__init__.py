"""Two dependent kernels whose tiles are synchronised: the second starts before the first has ended."""

from costmodel.planner.tiles._kernel import TiledKernel
from costmodel.planner.tiles._saving import POLICIES, Saving, predict_saving
from costmodel.planner.tiles._schedule import Overheads
from costmodel.planner.tiles.policies import RowSync, StridedSync, SyncPolicy, TileSync

__all__ = [
    "POLICIES",
    "Overheads",
    "RowSync",
    "Saving",
    "StridedSync",
    "SyncPolicy",
    "TileSync",
    "TiledKernel",
    "predict_saving",
]
