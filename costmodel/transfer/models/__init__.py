"""Models that learn from source tasks and adapt to a new one."""

from costmodel.transfer.models._calibrated import Calibrated
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.models._ridge_on_sources import RidgeOnSources
from costmodel.transfer.models._scratch import FromScratch
from costmodel.transfer.models._source_mixture import SourceMixture

__all__ = [
    "Calibrated",
    "FromScratch",
    "Residual",
    "RidgeOnSources",
    "SourceMixture",
]
