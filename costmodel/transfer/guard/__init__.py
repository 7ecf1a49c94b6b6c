"""Guarded transfer: limits the harm of misleading sources by a fallback that learns from nothing."""

from costmodel.transfer.guard._alone import Alone
from costmodel.transfer.guard._guarded import Guarded
from costmodel.transfer.guard._turns import transfer_turns
from costmodel.transfer.guard._units import in_common_unit

__all__ = ["Alone", "Guarded", "in_common_unit", "transfer_turns"]
