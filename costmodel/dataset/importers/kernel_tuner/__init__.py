"""Cache files of Kernel Tuner."""

from costmodel.dataset.importers.kernel_tuner._cache import KERNEL_TUNER
from costmodel.dataset.importers.kernel_tuner._kernel import SM_PERCENTAGE, TunedKernel, tuned_device
from costmodel.dataset.importers.kernel_tuner._shown import show_config, show_entry, show_key

__all__ = [
    "KERNEL_TUNER",
    "SM_PERCENTAGE",
    "TunedKernel",
    "show_config",
    "show_entry",
    "show_key",
    "tuned_device",
]
