"""Blocks for Inductor's elementwise and reduction kernels, from their code alone."""

import ast
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.integrations.inductor._fused import (
    COLUMNS,
    BlockSizes,
    FusedKernel,
    fused_columns,
    possible_blocks,
    read_fused,
    with_blocks,
)
from costmodel.integrations.inductor._models import FITTED_BLOCKS, FusedModel, shipped_blocks

pytestmark = pytest.mark.white_box

# As Inductor 2.11 writes it, less what it does not need.
LAYER_NORM = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties

@triton_heuristics.persistent_reduction(
    size_hints={'x': 128, 'r0_': 1024},
    reduction_hint=ReductionHint.INNER,
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp16', 'in_ptr1': '*fp32', 'out_ptr0': '*fp16', 'xnumel': 'i32'}},
    inductor_meta={'grid_type': 'Grid1D', 'atomic_add_found': False, 'num_load': 2}
)
@triton.jit
def triton_per_fused_native_layer_norm_0(in_ptr0, in_ptr1, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr):
    xnumel = 120
    r0_numel = 768
    tmp0 = tl.load(in_ptr0 + (r0_1 + 768*x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (r0_1), r0_mask, other=0.0)
    tmp2 = tl.sum(tmp0, 1)[:, None]
    tmp3 = libdevice.rsqrt(tmp2)
    tl.store(out_ptr0 + (r0_1 + 768*x0), tmp3, r0_mask & xmask)
"""
READ = FusedKernel("persistent_reduction", ("XBLOCK",), 120, 1, 768, 6, 2, 2, (0, 0, 3), 1, 1, 4)
TRANSPOSE = FusedKernel("pointwise", ("XBLOCK", "YBLOCK"), 4096, 10_000_000, 1, 4, 4, 1, (1, 1, 0), 0, 0, 1)


def test_what_a_kernel_does_is_read_from_its_code() -> None:
    assert read_fused(LAYER_NORM) == READ


@pytest.mark.parametrize(
    ("known", "instead"),
    [
        ("tl.sum(tmp0, 1)", "tl.atomic_add(in_ptr0, tmp0)"),
        ("'x': 128, 'r0_'", "'x': 128, 'z': 2, 'r0_'"),
        ("triton_heuristics.persistent_reduction", "triton_heuristics.template"),
        ("tl.load(in_ptr1", "tl.make_tensor_descriptor(in_ptr1"),
    ],
)
def test_what_has_needs_of_its_own_is_left_to_inductor(known: str, instead: str) -> None:
    assert known in LAYER_NORM
    assert read_fused(LAYER_NORM.replace(known, instead)) is None


def test_blocks_are_written_into_the_code() -> None:
    made = with_blocks(LAYER_NORM, [BlockSizes(2, 1, 1024, 4), BlockSizes(1, 1, 1024, 8)])
    (function,) = (each for each in ast.parse(made).body if isinstance(each, ast.FunctionDef))
    call = function.decorator_list[0]
    assert isinstance(call, ast.Call)
    sizes, configs = call.args
    assert ast.unparse(call.func) == "triton_heuristics.cached_autotune"
    assert ast.literal_eval(sizes) == {"x": 128, "r0_": 1024}
    assert ast.unparse(configs) == (
        "[triton.Config({'XBLOCK': 2}, num_warps=4, num_stages=1), "
        "triton.Config({'XBLOCK': 1}, num_warps=8, num_stages=1)]"
    )
    assert "HeuristicType.PERSISTENT_REDUCTION" in made
    assert made.partition("@triton.jit")[2] == LAYER_NORM.partition("@triton.jit")[2]


def test_possible_blocks_are_neither_tiny_nor_huge_and_fit_the_grid() -> None:
    held = possible_blocks(READ)
    assert {each.r for each in held} == {1024}
    assert max(each.elements for each in held) == 16384
    assert {each.x for each in held} == {1, 2, 4, 8, 16}
    assert all(TRANSPOSE.y / each.y <= 65535 for each in possible_blocks(TRANSPOSE))
    assert all(0.5 <= each.elements / (32 * each.warps) <= 64 for each in held)


@pytest.mark.parametrize("kernel", [READ, TRANSPOSE])
def test_columns_are_finite_and_know_the_sms(kernel: FusedKernel) -> None:
    blocks = possible_blocks(kernel)
    few, many = (fused_columns(kernel, blocks, sms) for sms in (8, 132))
    assert few.shape == (len(blocks), len(COLUMNS))
    assert np.isfinite(few).all()
    changed = {COLUMNS[i] for i in np.flatnonzero((few != many).any(axis=0))}
    assert changed <= {
        "log_programs_of_sm",
        "log_waves",
        "last_wave",
        "log_bytes_of_sm",
        "log_sms",
        "log_in_flight",
    }
    assert "log_programs_of_sm" in changed


def test_threads_have_the_elements_that_conversions_of_float8_take() -> None:
    """Inductor says it of elementwise kernels; its own rules for blocks keep to it."""
    quantised = LAYER_NORM.replace("persistent_reduction(", "pointwise(").replace("= 120", "= 4096")
    kernel = read_fused(quantised.replace("'num_load': 2}", "'num_load': 2}, min_elem_per_thread=4"))
    assert kernel is not None
    assert {each.elements / (32 * each.warps) for each in possible_blocks(kernel)} == {4, 8, 16, 32, 64}
    assert READ.least_of_thread == 0.5


def small_blocks() -> FusedModel:
    """Likes blocks of at most 1,024 elements."""
    column = COLUMNS.index("log_elements")
    return FusedModel(
        np.array(["NVIDIA H100 80GB HBM3"]),
        np.array([[column]], np.uint8),
        np.array([[10.5]], np.float32),
        np.array([[0.0, 1.0]], np.float16),
    )


def test_a_model_chooses_the_same_after_it_was_saved(tmp_path: Path) -> None:
    made = small_blocks()
    made.save(tmp_path / "blocks.npz")
    loaded = FusedModel.load(tmp_path / "blocks.npz")
    chosen = loaded.choose(READ, 32, 2)
    assert chosen == made.choose(READ, 32, 2)
    assert {each.elements for each in chosen} == {1024}
    assert loaded.identity == made.identity
    assert loaded.knows("NVIDIA H200"), "the twin of the H100"
    assert not loaded.knows("NVIDIA L4")


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "blocks.npz"
    path.write_bytes(FITTED_BLOCKS.read_bytes()[:-200])
    with pytest.raises(CostModelError, match="must be a model of blocks"):
        FusedModel.load(path)
    splits = np.zeros((1, 3), np.uint8)
    arrays = [np.array(["a"]), splits, np.zeros((1, 3)), np.zeros((1, 4))]
    FusedModel(*arrays)
    for i, damaged in enumerate([np.zeros(1), splits[0], np.full((1, 3), "a"), np.zeros((1, 3))]):
        with pytest.raises(CostModelError, match="must fit one another"):
            FusedModel(*arrays[:i], damaged, *arrays[i + 1 :])


def test_the_shipped_model_likes_other_blocks_on_few_sms() -> None:
    model = shipped_blocks()
    many_rows = READ._replace(x=16384)
    assert model.knows("NVIDIA H100 80GB HBM3")
    assert model.choose(many_rows, 8, 1) != [] != model.choose(many_rows, 132, 1)
