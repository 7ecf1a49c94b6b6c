"""What to tune next: kernels of a graph by what tuning them is expected to gain of the whole."""

from costmodel.planner.ranking._rank import Ranking, rank

__all__ = ["Ranking", "rank"]
