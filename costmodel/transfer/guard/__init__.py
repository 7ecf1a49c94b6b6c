"""Transfer that gives way where the sources mislead, with proposals that alternate with a fallback's."""

from costmodel.transfer.guard._guarded import Guarded
from costmodel.transfer.guard._proposals import own_and_better, transfer_schedule
from costmodel.transfer.guard._units import in_common_unit

__all__ = ["Guarded", "in_common_unit", "own_and_better", "transfer_schedule"]
