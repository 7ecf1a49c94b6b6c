"""From source tasks to a new one: zero-shot, few-shot, guarded, with intervals, and models in files."""

from costmodel.transfer._base import Predictor, StorableModel, TransferModel
from costmodel.transfer._calibrated import FAILURE_LOG_PENALTY, Calibrated
from costmodel.transfer._conformal import Conformal
from costmodel.transfer._describe import describe_model
from costmodel.transfer._drift import Alarm, DriftMonitor
from costmodel.transfer._familiarity import Familiarity
from costmodel.transfer._guard import Guarded
from costmodel.transfer._multitask import JoinedTask
from costmodel.transfer._plan import Belief, choose_first, shortlist
from costmodel.transfer._predicted_optimum import PredictedOptimum
from costmodel.transfer._rank import rank_correlation
from costmodel.transfer._registry import LEARNERS, make_model
from costmodel.transfer._residual import Residual
from costmodel.transfer._ridge_on_sources import RidgeOnSources
from costmodel.transfer._scratch import FromScratch
from costmodel.transfer._source_choice import SimilarSources
from costmodel.transfer._source_mixture import SourceMixture
from costmodel.transfer._store import LoadedModel, ModelCard, load_model, read_card, save_model
from costmodel.transfer.pyfunc import kernel_frame

__all__ = [
    "FAILURE_LOG_PENALTY",
    "LEARNERS",
    "Alarm",
    "Belief",
    "Calibrated",
    "Conformal",
    "DriftMonitor",
    "Familiarity",
    "FromScratch",
    "Guarded",
    "JoinedTask",
    "LoadedModel",
    "ModelCard",
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
