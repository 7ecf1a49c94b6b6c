"""Families of row-wise kernels and of attention: configs that agree with the reference, and facts.

Sizes are small and no multiples of blocks, so that every mask counts.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from shipped_family import SOURCE, assert_right, drawn, shared_bytes

from costmodel.kernels.triton._source import load_families
from costmodel.records import Config, Workload
from costmodel.records._candidate import Decision

pytestmark = pytest.mark.white_box

_OF_ROWS = ("m5-n130", "m3-n7", "m70-n300")
_OF_HEADS = ("b2-q40-k100-d16", "b1-q130-k130-d64", "b3-q1-k300-d32")
SMALL: Mapping[str, tuple[str, ...]] = {
    "softmax-{}-float16": _OF_ROWS,
    "softmax-{}": _OF_ROWS,
    "layer_norm-{}-float16": _OF_ROWS,
    "layer_norm-{}": _OF_ROWS,
    "rms_norm-{}-float16": _OF_ROWS,
    "rms_norm-{}": _OF_ROWS,
    "triton.add_rms_norm-{}": _OF_ROWS,
    "triton.cross_entropy-{}": _OF_ROWS,
    "triton.bias_gelu-{}": _OF_ROWS,
    "triton.reduction-{}": _OF_ROWS,
    "triton.rope-{}": ("t5-h3-d64", "t70-h5-d12", "t1-h1-d96"),
    "triton.embedding-{}": ("t5-v3-d64", "t70-v50-d101", "t1-v1-d96"),
    "triton.attention-{}": _OF_HEADS,
    "triton.causal_attention-{}": _OF_HEADS,
}
CASES = [kind.format(sizes) for kind, each in SMALL.items() for sizes in each]


@pytest.mark.triton
@pytest.mark.parametrize("name", CASES)
def test_drawn_configs_agree_with_the_reference(name: str) -> None:
    default = SOURCE.space(Workload.parse(name), "cuda").default
    assert_right(name, default.decisions, *(each.config.decisions for each in drawn(name, 4)))


_ROWS = {"ROWS": 2, "BLOCK_N": 128, "PROGRAMS": 0, "STAGES": 1, "num_warps": 2}
_SUMS = {"ROWS": 1, "BLOCK_N": 128, "SPLITS": 2, "STAGES": 1, "num_warps": 1}
_HEADS = {
    **{"BLOCK_M": 16, "BLOCK_N": 16, "SPLITS": 1, "PROGRAMS": 0},
    **{"num_warps": 1, "num_stages": 1, "BY_HEAD": 0},
}
_SHARED_KEYS = {**_HEADS, "SPLITS": 4}
_NO_RESET = ("tl.store(arrivals + tile, 0)", "pass")
BREAKS = [
    pytest.param(
        "softmax-m70-n300", _ROWS, ("total * tl.exp(before - largest) + ", "total + "), id="old sums"
    ),
    pytest.param("layer_norm-m70-n300", _ROWS, ("- mean * mean", ""), id="squares of what is not centred"),
    pytest.param("rms_norm-m70-n300", _ROWS, ("tl.load(gain + first", "tl.load(gain"), id="other gains"),
    pytest.param("triton.cross_entropy-m70-n300", _ROWS, ("starts + label", "starts"), id="another label"),
    pytest.param("triton.reduction-m5-n300", _SUMS, _NO_RESET, id="sums right only once"),
    pytest.param("triton.attention-b2-q40-k100-d16", _SHARED_KEYS, _NO_RESET, id="heads right only once"),
    pytest.param(
        "triton.attention-b2-q40-k100-d16",
        _SHARED_KEYS,
        ("part_scale * weight", "part_scale"),
        id="parts weigh the same",
    ),
    pytest.param(
        "triton.causal_attention-b2-q40-k100-d16",
        _HEADS,
        ("first + 1 + K - Q", "first + BLOCK_M + K - Q"),
        id="no mask at the diagonal",
    ),
]


@pytest.mark.triton
@pytest.mark.parametrize(("name", "decisions", "change"), BREAKS)
def test_a_broken_kernel_is_noticed(
    name: str, decisions: Mapping[str, Decision], change: tuple[str, str], tmp_path: Path
) -> None:
    workload = Workload.parse(name)
    family = next(family for family in SOURCE.shipped() if family.computes(workload))
    folder = tmp_path / "broken"
    shutil.copytree(family.kernel.parent, folder)
    text = family.source
    assert change[0] in text
    (folder / family.kernel.name).write_text(text.replace(*change))
    assert any(each.computes(workload) for each in load_families(str(folder)))
    with pytest.raises(AssertionError, match="differs from the reference"):
        assert_right(name, decisions, places=(str(folder),))


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "relative"),
    [
        ("softmax-m4096-n4096-float16", 0.0),
        ("layer_norm-m512-n8192", 0.0),
        ("triton.cross_entropy-m16-n2001", 0.0),  # rows that no copy of 4 bytes begins at
        ("triton.attention-b4-q512-k512-d64", 0.1),
        ("triton.causal_attention-b4-q4-k512-d128", 0.1),
    ],
)
def test_shared_memory_is_known_before_a_build(name: str, relative: float, tmp_path: Path) -> None:
    for candidate in drawn(name, 6):
        stated, found = candidate.launches[0].shared_bytes, shared_bytes(candidate, tmp_path)
        few = 16384 if name.startswith("triton.cross_entropy") else 8192  # by which warps exchange results
        assert abs(stated - found) <= few + relative * found, candidate.config.decisions


def test_attention_reads_no_key_behind_the_query() -> None:
    all_keys = Workload.parse("triton.attention-b2-q64-k64-d32")
    causal = Workload.parse("triton.causal_attention-b2-q64-k64-d32")
    config = Config({**_HEADS, "BLOCK_M": 32})
    (every,) = SOURCE.space(all_keys, "cuda").candidate(config).launches
    (half,) = SOURCE.space(causal, "cuda").candidate(config).launches
    # Of 64 queries in two blocks: the first block reads 32 keys of 64, the second one all.
    assert (every.global_load_bytes, half.global_load_bytes) == (
        2 * 2 * 32 * (64 + 256),
        2 * 2 * 32 * (64 + 192),
    )
    assert (every.tensor_flops, half.tensor_flops) == (4 * 2 * 32 * 64 * 64, 4 * 2 * 32 * 64 * 65 // 2)


def test_references_are_what_the_names_say() -> None:
    rng = np.random.default_rng(3)
    workload = Workload.parse("triton.causal_attention-b1-q2-k3-d4")
    query, key, value, _ = (each.astype(np.float64)[0] for each in SOURCE.arguments(workload))
    found = SOURCE.reference(workload)
    assert found
    for i, seen in ((0, 2), (1, 3)):
        powers = np.exp([query[i] @ key[j] / 2 for j in range(seen)])
        expected = sum(powers[j] * value[j] for j in range(seen)) / powers.sum()
        np.testing.assert_allclose(found[0][0, i], expected)
    tokens = SOURCE.arguments(Workload.parse("triton.embedding-t1000-v100-d1"))[1]
    assert np.bincount(tokens).max() > 3 * 1000 / 100 > np.bincount(tokens).min()
    turned = SOURCE.reference(Workload.parse("triton.rope-t9-h1-d2"))
    x = SOURCE.arguments(Workload.parse("triton.rope-t9-h1-d2"))[0].astype(np.float64)
    assert turned
    place = int(rng.integers(1, 9))
    left, right = x[place, 0]
    expected_pair = [
        left * np.cos(place) - right * np.sin(place),
        right * np.cos(place) + left * np.sin(place),
    ]
    np.testing.assert_allclose(turned[0][place, 0], expected_pair, rtol=1e-6)
