"""Models in files, and learners by name."""

from costmodel.transfer.storage._describe import describe_model
from costmodel.transfer.storage._registry import LEARNERS, make_model
from costmodel.transfer.storage._store import LoadedModel, ModelCard, load_model, read_card, save_model

__all__ = [
    "LEARNERS",
    "LoadedModel",
    "ModelCard",
    "describe_model",
    "load_model",
    "make_model",
    "read_card",
    "save_model",
]
