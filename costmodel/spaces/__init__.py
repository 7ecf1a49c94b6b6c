"""What can be chosen: design spaces as named discrete decisions. Importing this loads no TVM."""

from costmodel.spaces._errors import InvalidConfigError
from costmodel.spaces._parameters import Categorical, Parameter, Tile
from costmodel.spaces._sample import open_space, sample_candidates

__all__ = [
    "Categorical",
    "InvalidConfigError",
    "Parameter",
    "Tile",
    "open_space",
    "sample_candidates",
]
