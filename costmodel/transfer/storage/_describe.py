"""A model file as a tracked run keeps it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.tracking import ModelFile
from costmodel.transfer.storage import pyfunc
from costmodel.version import __version__

if TYPE_CHECKING:
    import pandas as pd

# Of what a model file says of itself, that which is no list of names.
_SHORT = (str, int, float, dict)
# Where a package that can be imported is installed by another name.
_INSTALLED_AS = {"sklearn": "scikit-learn"}


def describe_model(file: Path, metadata: Mapping[str, Any], example: "pd.DataFrame") -> Iterator[ModelFile]:
    """The model with its signature, as something that MLflow loads.

    Args:
        file: What ``save_model`` wrote.
        metadata: What was saved with it.
        example: Rows that it predicts from, as of ``pyfunc.kernel_frame``.
    """
    versions = {name: of for name, of in metadata.get("software", {}).items() if name != "python"}
    needed = [f"{_INSTALLED_AS.get(name, name)}=={version}" for name, version in versions.items()]
    yield ModelFile(
        file=file,
        loader=pyfunc.__name__,
        inputs=pyfunc.INPUTS,
        outputs=pyfunc.OUTPUTS,
        example=example,
        requirements=(f"sm-costmodel=={__version__}", *needed),
        metadata={name: value for name, value in metadata.items() if isinstance(value, _SHORT)},
    )
