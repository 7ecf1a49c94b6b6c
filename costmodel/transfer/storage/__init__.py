"""Model files."""

from costmodel.transfer.storage._archive import MOST_BYTES
from costmodel.transfer.storage._metadata import ModelMetadata, software_versions
from costmodel.transfer.storage._store import (
    ModelCard,
    StoredModel,
    read_card,
    read_model,
    write_model,
)

__all__ = [
    "MOST_BYTES",
    "ModelCard",
    "ModelMetadata",
    "StoredModel",
    "read_card",
    "read_model",
    "software_versions",
    "write_model",
]
