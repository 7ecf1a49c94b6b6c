"""From source tasks to a new one: zero-shot, few-shot, guarded, with intervals, and models in files."""

from costmodel.transfer._base import Predictor, StorableModel, TransferModel
from costmodel.transfer._drift import Alarm, DriftMonitor
from costmodel.transfer._plan import Posterior, choose_first, shortlist
from costmodel.transfer._rank import rank_correlation
from costmodel.transfer._rows import LearningRows
from costmodel.transfer.models import (
    FAILURE_LOG_PENALTY,
    Calibrated,
    FromScratch,
    PooledMultitask,
    PredictedOptimum,
    Residual,
    RidgeOnSources,
    SimilarSources,
    SourceMixture,
)
from costmodel.transfer.storage import (
    LEARNERS,
    LoadedModel,
    ModelCard,
    describe_model,
    load_model,
    make_model,
    read_card,
    save_model,
)
from costmodel.transfer.storage.pyfunc import kernel_frame
from costmodel.transfer.wrappers import Conformal, Familiarity, Guarded

__all__ = [
    "FAILURE_LOG_PENALTY",
    "LEARNERS",
    "Alarm",
    "Calibrated",
    "Conformal",
    "DriftMonitor",
    "Familiarity",
    "FromScratch",
    "Guarded",
    "LearningRows",
    "LoadedModel",
    "ModelCard",
    "PooledMultitask",
    "Posterior",
    "PredictedOptimum",
    "Predictor",
    "Residual",
    "RidgeOnSources",
    "SimilarSources",
    "SourceMixture",
    "StorableModel",
    "TransferModel",
    "choose_first",
    "describe_model",
    "kernel_frame",
    "load_model",
    "make_model",
    "rank_correlation",
    "read_card",
    "save_model",
    "shortlist",
]
