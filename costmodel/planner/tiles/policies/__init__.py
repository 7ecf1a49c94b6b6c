"""Policies of synchronisation between the tiles of two dependent kernels."""

from costmodel.planner.tiles.policies._base import SyncPolicy
from costmodel.planner.tiles.policies._row import RowSync
from costmodel.planner.tiles.policies._strided import StridedSync
from costmodel.planner.tiles.policies._tile import TileSync

__all__ = ["RowSync", "StridedSync", "SyncPolicy", "TileSync"]
