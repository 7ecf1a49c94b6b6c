"""From source tasks to a new one: zero-shot, few-shot, and models in files."""

from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer._calibrated import FAILURE_LOG_PENALTY, Calibrated
from costmodel.transfer._registry import LEARNERS, make_model
from costmodel.transfer._residual import Residual
from costmodel.transfer._ridge_on_sources import RidgeOnSources
from costmodel.transfer._scratch import FromScratch
from costmodel.transfer._store import LoadedModel, load_model, save_model

__all__ = [
    "FAILURE_LOG_PENALTY",
    "LEARNERS",
    "Calibrated",
    "FromScratch",
    "LoadedModel",
    "Predictor",
    "Residual",
    "RidgeOnSources",
    "TransferModel",
    "load_model",
    "make_model",
    "save_model",
]
