"""What is put around a model: intervals, the guard, familiarity."""

from costmodel.transfer.wrappers._conformal import Conformal
from costmodel.transfer.wrappers._familiarity import Familiarity
from costmodel.transfer.wrappers._guard import Guarded
from costmodel.transfer.wrappers._mondrian import MondrianQuantiles
from costmodel.transfer.wrappers._proposals import own_and_better, transfer_schedule

__all__ = ["Conformal", "Familiarity", "Guarded", "MondrianQuantiles", "own_and_better", "transfer_schedule"]
