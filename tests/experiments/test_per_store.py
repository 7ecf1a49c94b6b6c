"""TVM's per-store features, in one row a candidate."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from costmodel.kernels import sample_candidates
from costmodel.records import Candidate, Workload

sys.path.append(str(Path(__file__).parents[2] / "experiments" / "screening"))
from per_store import PER_STORE_NAMES, per_store_features

pytestmark = pytest.mark.tvm


@cache
def drawn(name: str) -> list[Candidate]:
    return sample_candidates(Workload.parse(name), "cuda", 8, seed=0)


def column(features: np.ndarray, name: str) -> np.ndarray:
    return features[:, PER_STORE_NAMES.index(name)]


def slog(values: np.ndarray) -> np.ndarray:
    """TVM's logarithm, which keeps the sign and is 0 at 0."""
    return np.sign(values) * np.log2(1.0 + np.abs(values))


def test_names_are_those_of_the_numbers() -> None:
    candidates = drawn("matmul-m32-n32-k32")
    features = per_store_features(candidates)
    launches = [candidate.launches[0] for candidate in candidates]
    assert features.shape == (len(candidates), len(PER_STORE_NAMES)) == (len(candidates), 164)
    assert len(set(PER_STORE_NAMES)) == 164
    # Four buffers are stored to: both staged operands, the accumulators and the result.
    np.testing.assert_array_equal(column(features, "is_gpu"), 4.0)
    for name, field in (
        ("blockIdx_x_len", "blocks"),
        ("threadIdx_x_len", "threads_per_block"),
        ("vthread_len", "vthreads"),
        ("auto_unroll_max_step", "unroll_steps"),
    ):
        recorded = np.array([getattr(launch, field) for launch in launches], dtype=np.float64)
        np.testing.assert_allclose(column(features, name), 4 * slog(recorded), rtol=1e-6)


def test_rows_do_not_depend_on_each_other() -> None:
    mixed = [*drawn("matmul-m32-n32-k32")[:2], *drawn("softmax-m64-n32")[:2]]
    together = per_store_features(mixed)
    alone = np.vstack([per_store_features([candidate]) for candidate in mixed])
    np.testing.assert_array_equal(together, alone)
    assert per_store_features([]).shape == (0, 164)
