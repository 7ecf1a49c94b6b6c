"""The families of mixtures of experts: routing, configs that agree with the reference, facts of launches."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from shipped_family import SOURCE, assert_right, drawn, shared_bytes

from costmodel.records import Workload

PLAIN = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 1, "num_warps": 2, "num_stages": 2}
GROUPED = {**PLAIN, "BLOCK_M": 16, "BLOCK_N": 64, "GROUP_M": 16}
FAMILIES = ("fused_moe", "fused_moe_weighted")


def counts(skew: int) -> NDArray[np.int64]:
    """How many tokens each expert gets."""
    workload = Workload.parse(f"triton.fused_moe-t500-e16-k4-n1-d1-s{skew}")
    first = SOURCE.arguments(workload)[3]
    return np.diff(first).astype(np.int64)


@pytest.mark.triton
@pytest.mark.parametrize("family", FAMILIES)
def test_configs_agree_with_the_reference(family: str) -> None:
    assert_right(f"triton.{family}-t50-e5-k3-n45-d70-s200", PLAIN, GROUPED)


@pytest.mark.triton
def test_experts_without_tokens_have_no_tiles() -> None:
    assert_right("triton.fused_moe-t2-e16-k1-n64-d32-s1", {**GROUPED, "GROUP_M": 1})


def test_assignments_are_sorted_by_expert_and_each_token_has_k_experts() -> None:
    workload = Workload.parse("triton.fused_moe-t50-e6-k3-n1-d1-s100")
    _, _, order, first, weights, _ = SOURCE.arguments(workload)
    expert_of = np.empty(150, dtype=np.int64)
    for expert in range(6):
        expert_of[order[first[expert] : first[expert + 1]]] = expert
    assert sorted(order) == list(range(150))
    assert all(len(set(of_token)) == 3 for of_token in expert_of.reshape(50, 3))
    np.testing.assert_allclose(weights.reshape(50, 3).sum(axis=1), 1, rtol=1e-6)


def test_routing_is_as_uneven_as_the_workload_says() -> None:
    even, uneven = counts(1), counts(200)
    assert even.sum() == uneven.sum() == 500 * 4
    assert even.max() < 1.3 * even.mean()
    assert uneven.max() > 2.5 * uneven.mean()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_is_each_token_times_the_weights_of_its_experts(family: str) -> None:
    workload = Workload.parse(f"triton.{family}-t5-e4-k2-n3-d2-s100")
    x, w, order, first, weights, _ = SOURCE.arguments(workload)
    (found,) = SOURCE.reference(workload) or []
    for expert in range(4):
        for assignment in order[first[expert] : first[expert + 1]]:
            row = w[expert].astype(np.float64) @ x[assignment // 2].astype(np.float64)
            scale = weights[assignment] if family == "fused_moe_weighted" else 1
            np.testing.assert_allclose(found[assignment], scale * row, rtol=1e-4)


@pytest.mark.triton
def test_shared_memory_is_known_before_a_build(tmp_path: Path) -> None:
    for candidate in drawn("triton.fused_moe-t512-e32-k8-n1024-d1024-s100", 6):
        assert candidate.launches[0].shared_bytes == shared_bytes(candidate, tmp_path)
