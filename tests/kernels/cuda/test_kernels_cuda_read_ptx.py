"""What is read of CUDA kernels: of PTX written here, and of what NVRTC makes of the families that ship."""

import numpy as np
import pytest

from costmodel import CostModelError
from costmodel.kernels.cuda import _ptx_walk as module
from costmodel.kernels.cuda._ptx import PtxInstruction, parse_ptx
from costmodel.kernels.cuda._ptx_values import compute_lanes, typed
from costmodel.kernels.cuda._ptx_walk import WarpPlace, WarpWalk
from costmodel.kernels.cuda._read_ptx import find_loops
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.cuda._warp_counts import COUNTED, WarpCounts
from costmodel.records._candidate import Candidate
from costmodel.records._workload import Workload

pytestmark = pytest.mark.white_box

# The first loop turns as often as the argument says; in it, another one turns as often as the first one has.
NESTED = """
.version 9.0
.visible .entry nested(
    .param .u64 nested_param_0,
    .param .u32 nested_param_1
)
{
    .reg .pred %p<9>;
    ld.param.u64 %rd1, [nested_param_0];
    ld.param.u32 %r9, [nested_param_1];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;   // turns
$L__BB0_1:
    mul.wide.s32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3+128];
    mov.u32 %r3, 0;
$L__BB0_2:
    fma.rn.f32 %f2, %f1, %f1, %f2;
    add.s32 %r3, %r3, 1;
    setp.le.s32 %p1, %r3, %r2;
    @%p1 bra $L__BB0_2;
    add.s32 %r1, %r1, 32;
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p2, %r2, %r9;
    @%p2 bra $L__BB0_1;
    setp.ne.s32 %p3, %r1, 0;
    @%p3 st.global.f32 [%rd3], %f2;
    ret;
}
"""
# Lanes below the argument add, the others multiply; all store; the first alone stores once more, 8 bytes.
BRANCHES = """
.visible .entry branches(.param .u64 branches_param_0, .param .u32 branches_param_1)
{
    ld.param.u64 %rd1, [branches_param_0];
    ld.param.u32 %r9, [branches_param_1];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, %r9;
    @%p1 bra $L_more;
    add.f32 %f1, %f1, %f1;
    bra.uni $L_all;
$L_more:
    mul.f32 %f1, %f1, %f1;
$L_all:
    mul.wide.u32 %rd2, %r1, 16;
    add.s64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f1;
    setp.eq.s32 %p2, %r1, 0;
    @%p2 st.global.v2.f32 [%rd1], {%f1, %f1};
    ret;
}
"""
# Data decide how often the loop turns, and where it loads.
GUESSED = """
.visible .entry guessed(.param .u64 guessed_param_0)
{
    ld.param.u64 %rd1, [guessed_param_0];
$L_loop:
    ld.global.u32 %r1, [%rd1];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $L_loop;
    ret;
}
"""
SHARED = """
.shared .align 4 .b8 tile[8192];
.visible .entry shared(.param .u32 shared_param_0)
{
    ld.param.u32 %r9, [shared_param_0];
    mov.u32 %r1, %tid.x;
    mul.lo.s32 %r2, %r1, %r9;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.s32 %r5, %r4, %r3;
    st.shared.f32 [%r5], %f1;
    bar.sync 0;
    ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [tile];
    ret;
}
"""


def walked(text: str, *arguments: int, threads: int = 32) -> WarpCounts:
    name = text.partition(".entry ")[2].partition("(")[0]
    kernel = parse_ptx(text, name)
    counts = WarpCounts(find_loops(kernel))
    place = WarpPlace((0, 0, 0), 0, (1, 1, 1), (threads, 1, 1))
    WarpWalk(kernel, list(arguments), place, counts).run()
    return counts


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 7, 300])
def test_turns_of_nested_loops_are_counted_whether_run_or_not(turns: int) -> None:
    found = walked(NESTED, 1 << 20, turns)
    assert found["loads"] == turns
    assert found["load_bytes"] == 128 * turns
    assert found["load_sectors"] == found["load_distinct_sectors"] == 4 * turns
    assert found["float_ops"] == 2 * turns * (turns + 1) / 2
    assert found["stores"] == 1
    assert found["memory_waits"] == turns


@pytest.mark.parametrize("turns", [5, 40])
def test_skipped_turns_count_as_if_they_were_run(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = walked(NESTED, 1 << 20, turns)
    monkeypatch.setattr(module, "_turns_alike", lambda *_: 0)
    run = walked(NESTED, 1 << 20, turns)
    assert {name: skipped[name] for name in COUNTED} == {name: run[name] for name in COUNTED}


@pytest.mark.parametrize(("below", "operations"), [(0, 1), (7, 2), (32, 1)])
def test_lanes_that_part_meet_again(below: int, operations: int) -> None:
    found = walked(BRANCHES, 1 << 20, below)
    assert found["float_ops"] == operations
    assert found["stores"] == 2
    assert found["store_bytes"] == 32 * 4 + 8
    assert found["store_sectors"] == 16 + 1
    assert -found["narrowest"] == 4


def test_threads_that_are_not_there_do_nothing() -> None:
    assert walked(BRANCHES, 1 << 20, 0, threads=8)["store_bytes"] == 8 * 4 + 8


def test_what_data_decide_is_guessed_and_counted() -> None:
    found = walked(GUESSED, 1 << 20)
    assert found["loads"] == 8
    assert found["guessed_bounds"] == 8
    assert found["guessed_accesses"] == 7  # the first address is known
    assert found["load_sectors"] == 1 + 7 * 32


@pytest.mark.parametrize(("stride", "turns"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1)])
def test_banks_serve_one_word_at_a_time(stride: int, turns: int) -> None:
    found = walked(SHARED, stride)
    assert found["bank_turns"] == turns + 1
    assert (found["shared_store_words"], found["shared_load_words"], found["barriers"]) == (1, 4, 1)


@pytest.mark.parametrize(
    ("text", "given", "result"),
    [
        ("mul.hi.s32", (-7, 1431655766), -3),  # a third, rounded down
        ("mul.hi.u32", (-1, -1), -2),
        ("mul.wide.u32", (-1, 2), 2 * (2**32 - 1)),
        ("mul.lo.s32", (2**30, 4), 0),
        ("div.s32", (-7, 2), -3),
        ("rem.s32", (-7, 2), -1),
        ("div.u32", (-2, 2), 2**31 - 1),
        ("shr.s32", (-8, 1), -4),
        ("shr.u32", (-8, 1), 2**31 - 4),
        ("bfi.b32", (5, 0, 4, 3), 80),
        ("bfe.u32", (80, 4, 3), 5),
        ("cvt.u64.u32", (-1,), 2**32 - 1),
        ("cvt.s64.s32", (-1,), -1),
        ("min.u32", (-1, 7), 7),
        ("setp.lt.u32", (-1, 7), False),
        ("mad.lo.s32", (3, 4, 5), 17),
        ("selp.b32", (3, 4, True), 3),
        ("add.f32", (3, 4), None),
    ],
)
def test_whole_numbers_are_computed_as_their_types_say(
    text: str, given: tuple[int, ...], result: int | None
) -> None:
    name, *parts = text.split(".")
    lanes = [np.full(32, each) if each is True else typed(np.full(32, each), "s32") for each in given]
    found = compute_lanes(PtxInstruction(name, tuple(parts), ()), lanes)
    assert (None if found is None else found.tolist()) == (None if result is None else [result] * 32)


def test_another_kernel_is_refused() -> None:
    with pytest.raises(CostModelError, match="must have the kernel other"):
        parse_ptx(NESTED, "other")


def default_of(name: str) -> Candidate:
    source = CudaSource()
    workload = Workload.parse(name)
    space = source.space(workload, "cuda")
    return space.candidate(space.starts[0])


@pytest.mark.parametrize(
    "name", ["cuda.gemm-m256-n256-k256", "cuda.transpose-m512-n256", "matmul-m128-n128-k256-float16"]
)
def test_counts_are_what_authors_say_of_their_kernels(name: str) -> None:
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        bindings.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")
    candidate = default_of(name)
    reading = CudaSource().read(candidate, "cuda", "sm_90")
    assert reading.note == ""
    facts, (launch,) = reading.facts, candidate.launches
    assert facts.programs == launch.blocks
    assert facts.threads == launch.threads_per_block
    assert facts.load_bytes * facts.programs == launch.global_load_bytes
    assert facts.store_bytes * facts.programs == launch.global_store_bytes
    assert facts.tensor_flops * facts.programs == launch.tensor_flops
    if not launch.tensor_flops:
        assert facts.float_ops * facts.programs == pytest.approx(launch.flops, rel=0.01)
    assert facts.guesses == 0


def test_what_cannot_be_compiled_is_a_note() -> None:
    reading = CudaSource().read(default_of("cuda.transpose-m512-n256"), "cuda", "sm_1")
    assert reading.note
