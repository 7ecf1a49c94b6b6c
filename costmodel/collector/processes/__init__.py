"""Resources that processes of one machine share: temporary folders, and the SMs of devices."""

from costmodel.collector.processes._held_folder import HeldFolder
from costmodel.collector.processes._sm_ledger import WHOLE, SmLedger

__all__ = ["WHOLE", "HeldFolder", "SmLedger"]
