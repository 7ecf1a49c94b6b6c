"""Traces of the same operator written in another way."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from small_spaces import SMALL, drawn
from tvm.s_tir import meta_schedule as ms

from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Workload

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
@pytest.mark.parametrize("name", SMALL)
def test_the_config_of_a_trace_of_ones_own_program(name: str, kind: Any) -> None:
    space = open_space(Workload.parse(name), kind)
    for candidate in drawn(name, kind):
        assert space.config_like(space.schedule(candidate.config).trace) == candidate.config


def spelled_otherwise() -> Any:
    """A matrix product with other names of blocks and loops."""
    from tvm import te

    left, right = te.placeholder((32, 64), name="left"), te.placeholder((64, 16), name="right")
    inner = te.reduce_axis((0, 64), "inner")
    product = te.compute(
        (32, 16), lambda row, column: te.sum(left[row, inner] * right[inner, column], inner), name="product"
    )
    return tvm.IRModule({"main": te.create_prim_func([left, right, product])})


def test_names_do_not_matter_and_choices_do() -> None:
    register_tensor_intrinsics()
    generator = ms.space_generator.PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")
    target = tvm.target.Target("nvidia/nvidia-h100")
    context = ms.TuneContext(
        spelled_otherwise(), target=target, space_generator=generator, rand_state=1, num_threads=1
    )
    space = open_space(Workload.parse("matmul-m32-n16-k64"), "cuda")
    other = open_space(Workload.parse("matmul-m32-n16-k32"), "cuda")
    for position, schedule in enumerate(context.generate_design_space()):
        config = space.config_like(schedule.trace)
        assert config.decisions["sketch"] == position
        samples = [i for i in schedule.trace.insts if i.kind.name == "SamplePerfectTile"]
        tiles = [tuple(int(n) for n in schedule.trace.decisions[i]) for i in samples]
        assert [config.decisions[f"tile.C.{loop}"] for loop in "ijk"] == tiles
        assert np.prod(tiles[2]) == 64
        assert other.config_like(schedule.trace) is None  # no tiles of 64 iterations there


def test_a_trace_of_another_operator_has_no_config() -> None:
    softmax = open_space(Workload.parse("softmax-m64-n32"), "cuda")
    matmul = open_space(Workload.parse("matmul-m32-n32-k32"), "cuda")
    (candidate, *_) = drawn("softmax-m64-n32", "cuda")
    assert matmul.config_like(softmax.schedule(candidate.config).trace) is None
