"""Families of kernels that serve language models: they agree with references, and data are as told."""

import numpy as np
import pytest
from shipped_family import SOURCE, assert_right

from costmodel.kernels._reference import agrees
from costmodel.kernels.triton.families import float8
from costmodel.records import Workload

pytestmark = pytest.mark.white_box

ATTENTION = {"BLOCK_N": 16, "SPLITS": 1, "num_warps": 4, "num_stages": 2}
LATENT = {"BLOCK_H": 16, "BLOCK_N": 16, "SPLITS": 1, "num_warps": 4, "num_stages": 2}
PACKED = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SPLIT_K": 1, "num_warps": 2, "num_stages": 2}
SCALED = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64, "GROUP_M": 1, "num_warps": 2, "num_stages": 2}
EXPERTS = {**SCALED, "BLOCK_K": 32, "GROUP_M": 1}
ROUTING = {"ROWS": 1, "PROGRAMS": 0, "num_warps": 1}
QUANTISED = {"ROWS": 1, "BLOCK_N": 512, "num_warps": 1}


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "configs"),
    [
        (
            "paged_attention-b3-h2-q3-d16-p4-c45-s80",
            (ATTENTION, {**ATTENTION, "SPLITS": 2}, {**ATTENTION, "BLOCK_N": 32}),
        ),
        ("paged_attention-b5-h1-q17-d32-p16-c70-s200", ({**ATTENTION, "SPLITS": 4},)),
        (
            "latent_attention-b3-h5-r64-o16-p4-c45-s80",
            (LATENT, {**LATENT, "SPLITS": 2}, {**LATENT, "BLOCK_N": 32}),
        ),
        (
            "latent_attention-b2-h17-r64-o32-p16-c70-s200",
            ({**LATENT, "SPLITS": 4}, {**LATENT, "BLOCK_H": 32}),
        ),
        ("int4_weights-m5-n45-k168-g64", (PACKED, {**PACKED, "SPLIT_K": 4})),
        ("int8_weights-m5-n45-k168-g64", (PACKED, {**PACKED, "BLOCK_M": 32, "BLOCK_K": 64, "SPLIT_K": 2})),
        (
            "block_scaled_float8-m70-n200-k300",
            (SCALED, {**SCALED, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8}),
        ),
        ("fused_moe_float8-t40-e5-k3-n150-d300-s200", (EXPERTS, {**EXPERTS, "BLOCK_K": 128, "GROUP_M": 16})),
        ("fused_moe_float8-t2-e16-k1-n64-d32-s1", (EXPERTS,)),
        ("fused_moe_int4-t40-e5-k3-n45-d168-g64-s200", (EXPERTS, {**EXPERTS, "BLOCK_K": 64, "GROUP_M": 16})),
        ("fused_moe_int8-t3-e8-k2-n45-d168-g32-s1", (EXPERTS,)),
        ("expert_routing-t13-e12-k3-s100", (ROUTING, {**ROUTING, "ROWS": 8})),
        ("expert_routing_renormalised-t40-e12-k1-s100", (ROUTING, {**ROUTING, "PROGRAMS": 32})),
        ("rms_norm_to_int8-m7-n300", (QUANTISED, {"ROWS": 4, "BLOCK_N": 128, "num_warps": 2})),
    ],
)
def test_configs_agree_with_the_reference(name: str, configs: tuple[dict[str, int], ...]) -> None:
    assert_right(f"triton.{name}", *configs)


def test_contexts_are_as_uneven_as_the_workload_says_and_share_no_page() -> None:
    workload = Workload.parse("triton.paged_attention-b8-h1-q1-d16-p16-c1000-s100")
    _, key, _, table, lengths, _ = SOURCE.arguments(workload)
    assert sorted(lengths, reverse=True) == [1000, 500, 333, 250, 200, 167, 143, 125]
    used = [page for row, length in zip(table, lengths, strict=True) for page in row[: -(-length // 16)]]
    assert sorted(used) == list(range(len(key)))


def test_what_is_stored_of_a_weight_is_the_weight_over_its_scale_and_a_half_of_the_range() -> None:
    workload = Workload.parse("triton.int4_weights-m1-n1-k16-g8")
    x, words, scales, _ = SOURCE.arguments(workload)
    stored = [int(word) >> 4 * place & 15 for word in words.view(np.uint32)[:, 0] for place in range(8)]
    weights = [(each - 8) * float(scales[i // 8, 0]) for i, each in enumerate(stored)]
    np.testing.assert_allclose(
        SOURCE.reference(workload)[0], [[np.dot(x[0].astype(float), weights)]], rtol=1e-3
    )


def test_every_token_gets_its_best_experts_in_order() -> None:
    workload = Workload.parse("triton.expert_routing-t20-e6-k2-s100")
    logits, *_ = SOURCE.arguments(workload)
    weights, experts = SOURCE.reference(workload)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(experts[:, 0], logits.argmax(axis=1))
    np.testing.assert_allclose(weights, np.take_along_axis(shares, experts, axis=1), rtol=1e-5)
    assert (weights[:, 0] >= weights[:, 1]).all()


def test_float8_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    codes = np.setdiff1d(np.arange(256), [0x7F, 0xFF]).astype(np.uint8)
    numbers = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(float8.decode(codes), numbers)
    drawn = float8.decode(float8.draw(np.random.default_rng(0), (100, 100)))
    assert np.abs(drawn).max() < 2
    assert np.mean(drawn**2) == pytest.approx(0.37, abs=0.01)


def test_codes_of_quantised_numbers_may_be_off_by_one_here_and_there_and_other_integers_not() -> None:
    codes = np.arange(-100, 100, dtype=np.int8)
    other = codes.copy()
    other[7] += 1
    assert agrees(other, codes, 2e-3)
    assert not agrees(-other, codes, 2e-3)
    assert not agrees(other, codes)
    assert not agrees(other.astype(np.int32), codes.astype(np.int32), 2e-3)
