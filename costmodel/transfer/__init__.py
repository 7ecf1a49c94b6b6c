"""Transfer from source tasks to a new one: zero-shot, few-shot, guarded, with intervals; model files."""

from costmodel.learners import learner_names
from costmodel.transfer._base import Predictor, StorableModel, TransferModel
from costmodel.transfer._make import make_model
from costmodel.transfer._plan import Posterior, choose_first, shortlist
from costmodel.transfer._rank import rank_correlation
from costmodel.transfer._rows import LearningRows
from costmodel.transfer.guard import Guarded
from costmodel.transfer.models import (
    FromScratch,
    Residual,
    RidgeOnSources,
    SourceMixture,
)
from costmodel.transfer.prediction import (
    NOTE_SEPARATOR,
    Model,
    SweptKernels,
    UnmeasuredDeviceWarning,
    describe_model,
    device_named,
    kernel_frame,
    load_model,
    read_device,
    sweep_kernels,
)
from costmodel.transfer.storage import ModelCard, ModelMetadata, read_card, software_versions
from costmodel.transfer.uncertainty import Conformal

__all__ = [
    "NOTE_SEPARATOR",
    "Conformal",
    "FromScratch",
    "Guarded",
    "LearningRows",
    "Model",
    "ModelCard",
    "ModelMetadata",
    "Posterior",
    "Predictor",
    "Residual",
    "RidgeOnSources",
    "SourceMixture",
    "StorableModel",
    "SweptKernels",
    "TransferModel",
    "UnmeasuredDeviceWarning",
    "choose_first",
    "describe_model",
    "device_named",
    "kernel_frame",
    "learner_names",
    "load_model",
    "make_model",
    "rank_correlation",
    "read_card",
    "read_device",
    "shortlist",
    "software_versions",
    "sweep_kernels",
]
