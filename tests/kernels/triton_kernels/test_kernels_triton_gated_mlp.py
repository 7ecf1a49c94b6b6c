"""The family of gated products: configs that agree with the reference, and facts of launches."""

from pathlib import Path

import numpy as np
import pytest
from shipped_family import SOURCE, assert_right, drawn, shared_bytes

from costmodel.records import Workload

PLAIN = {
    **{"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 1, "PROGRAMS": 0},
    **{"num_warps": 2, "num_stages": 2},
}
GROUPED = {**PLAIN, "BLOCK_M": 16, "BLOCK_N": 64, "GROUP_M": 8}
PERSISTENT = {**GROUPED, "PROGRAMS": 8}


@pytest.mark.triton
@pytest.mark.parametrize("sizes", ["m64-n96-k64", "m83-n75-k69"])
def test_configs_agree_with_the_reference(sizes: str) -> None:
    assert_right(f"triton.gated_mlp-{sizes}", PLAIN, GROUPED, {**PLAIN, "BLOCK_K": 64})


@pytest.mark.triton
def test_programs_that_walk_over_tiles_leave_none_out() -> None:
    assert_right("triton.gated_mlp-m83-n75-k69", PERSISTENT)


def test_the_reference_is_the_gate_times_the_rest() -> None:
    workload = Workload.parse("triton.gated_mlp-m2-n3-k4")
    x, w1, w3, _ = (array.astype(np.float64) for array in SOURCE.arguments(workload))
    found = SOURCE.reference(workload)
    assert found
    for row, column in np.ndindex(2, 3):
        gate = sum(x[row, i] * w1[i, column] for i in range(4))
        rest = sum(x[row, i] * w3[i, column] for i in range(4))
        assert found[0][row, column] == pytest.approx(gate / (1 + np.exp(-gate)) * rest, rel=1e-4)


@pytest.mark.triton
def test_shared_memory_is_known_before_a_build(tmp_path: Path) -> None:
    candidates = drawn("triton.gated_mlp-m512-n2816-k1024", 6)
    stated = np.array([candidate.launches[0].shared_bytes for candidate in candidates])
    found = np.array([shared_bytes(candidate, tmp_path) for candidate in candidates])
    np.testing.assert_allclose(stated, found, rtol=0.25)
    assert np.median(np.abs(stated / found - 1)) == 0
