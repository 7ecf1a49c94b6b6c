"""TVM's own features of lowered programs: what its XGBoost cost model learns from."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels import open_space
from costmodel.records import Candidate
from costmodel.records._platform import TargetKind

_BUFFERS, _CURVE_POINTS = 5, 10

_ARITHMETIC = (
    *(f"float_{op}" for op in ("mad", "add_sub", "mul", "div_mod", "cmp", "math_func", "other_func")),
    *(f"int_{op}" for op in ("mad", "add_sub", "mul", "div_mod", "cmp", "math_func", "other_func")),
    "bool_op",
    "select_op",
)
_POSITIONS = (
    "none",
    *(f"{part}_{kind}" for kind in ("spatial", "reduce") for part in ("inner", "middle", "outer")),
    "mixed",
)
_LOOPS = tuple(
    f"{kind}.{name}"
    for kind in ("vectorize", "unroll", "parallel")
    for name in ("num", "prod", "len", *(f"pos_{position}" for position in _POSITIONS))
)
_BINDINGS = (
    "is_gpu",
    *(f"{level}Idx_{axis}_len" for level in ("block", "thread") for axis in "xyz"),
    "vthread_len",
)
_BUFFER = (
    *(f"is_{access}" for access in ("read", "write", "read_write")),
    *("bytes", "unique_bytes", "lines", "unique_lines"),
    *(f"reuse_{kind}" for kind in ("loop", "serial", "none")),
    *("reuse_dis_iter", "reuse_dis_bytes", "reuse_ct"),
    *(f"{amount}_d_reuse_ct" for amount in ("bytes", "unique_bytes", "lines", "unique_lines")),
    "stride",
)

PER_STORE_NAMES = (
    *_ARITHMETIC,
    *_LOOPS,
    *_BINDINGS,
    *(f"buffer_{i}.{name}" for i in range(_BUFFERS) for name in _BUFFER),
    *(f"arith_intensity_curve_{i}" for i in range(_CURVE_POINTS)),
    *("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod"),
    *("outer_prod", "num_loops", "auto_unroll_max_step"),
)
"""Names of the 164 features, in the order of TVM (per_store_feature.cc of MetaSchedule)."""


def per_store_features(candidates: Sequence[Candidate], kind: TargetKind = "cuda") -> NDArray[np.float64]:
    """``(n, 164)`` features named by ``PER_STORE_NAMES``, by lowering each candidate. Loads TVM.

    TVM has one row for each buffer that a program stores to, and its XGBModel predicts the sum of what it
    predicts of each ("pack-sum"). Rows are added up here in the same way, so that a learner of one row a
    candidate can take them. They do not know the device.

    Args:
        candidates: Candidates of operators. Those of one workload are best next to each other.
        kind: Kind of device that their spaces are for.

    Raises:
        MissingExtraError: TVM is not installed.
        InvalidConfigError: No valid kernel comes of a candidate.
    """
    rows = [
        _of_workload(list(group), kind) for _, group in groupby(candidates, key=lambda one: one.workload.name)
    ]
    return np.concatenate(rows) if rows else np.empty((0, len(PER_STORE_NAMES)))


def _of_workload(candidates: Sequence[Candidate], kind: TargetKind) -> NDArray[np.float64]:
    """Features of candidates that all have the first one's workload."""
    space = open_space(candidates[0].workload, kind)
    from tvm.s_tir import meta_schedule as ms

    extractor = ms.feature_extractor.PerStoreFeature(
        buffers_per_store=_BUFFERS, arith_intensity_curve_num_samples=_CURVE_POINTS
    )
    measured = [ms.MeasureCandidate(space.schedule(candidate.config), []) for candidate in candidates]
    stores: list[Any] = extractor.extract_from(space.context, measured)
    return np.array([store.numpy().sum(axis=0) for store in stores], dtype=np.float64)
