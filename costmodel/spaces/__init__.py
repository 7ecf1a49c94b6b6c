"""What can be chosen: design spaces as named discrete decisions. Importing this loads no TVM."""

from costmodel.spaces._database_json import database_record, database_workload
from costmodel.spaces._distinct import DistinctPrograms
from costmodel.spaces._errors import InvalidConfigError
from costmodel.spaces._parameters import Categorical, Parameter, Tile
from costmodel.spaces._per_store import PER_STORE_NAMES, per_store_features
from costmodel.spaces._sample import lowered_launches, open_space, sample_candidates
from costmodel.spaces._target import TargetKind, make_target
from costmodel.spaces._tensor_intrin import register_tensor_intrinsics

__all__ = [
    "PER_STORE_NAMES",
    "Categorical",
    "DistinctPrograms",
    "InvalidConfigError",
    "Parameter",
    "TargetKind",
    "Tile",
    "database_record",
    "database_workload",
    "lowered_launches",
    "make_target",
    "open_space",
    "per_store_features",
    "register_tensor_intrinsics",
    "sample_candidates",
]
