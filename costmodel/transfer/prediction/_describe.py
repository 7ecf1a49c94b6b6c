"""A model file as a tracked run keeps it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from costmodel.tracking._items import ModelFile
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction import pyfunc

if TYPE_CHECKING:
    import pandas as pd

# Of what a model file says of itself, that which is no list.
_SHORT = (str, int, float, dict)
# By what name a package is installed, where it is not the one that it is imported by.
_INSTALLED_AS = {"costmodel": "sm-costmodel", "sklearn": "scikit-learn"}


def describe_model(file: Path, metadata: ModelMetadata, example: "pd.DataFrame") -> Iterator[ModelFile]:
    """The model with its signature, as something that MLflow loads.

    Args:
        file: What ``Model.save`` wrote.
        metadata: What was saved with it.
        example: Rows that it predicts from, as of ``kernel_frame``.
    """
    versions = {name: of for name, of in metadata.versions.items() if name != "python"}
    about = msgspec.structs.asdict(metadata)
    yield ModelFile(
        file=file,
        loader=pyfunc.__name__,
        inputs=pyfunc.INPUTS,
        outputs=pyfunc.OUTPUTS,
        example=example,
        requirements=tuple(f"{_INSTALLED_AS.get(name, name)}=={of}" for name, of in versions.items()),
        metadata={name: value for name, value in about.items() if isinstance(value, _SHORT)},
    )
