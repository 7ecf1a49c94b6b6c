"""What can be chosen: design spaces as named discrete decisions. Importing this loads no TVM."""

from costmodel.spaces._distinct import DistinctPrograms
from costmodel.spaces._errors import InvalidConfigError
from costmodel.spaces._parameters import Categorical, Parameter, Tile
from costmodel.spaces._sample import open_space, sample_candidates
from costmodel.spaces._target import make_target
from costmodel.spaces._tensor_intrin import register_tensor_intrinsics

__all__ = [
    "Categorical",
    "DistinctPrograms",
    "InvalidConfigError",
    "Parameter",
    "Tile",
    "make_target",
    "open_space",
    "register_tensor_intrinsics",
    "sample_candidates",
]
