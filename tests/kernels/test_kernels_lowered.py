import math
import re

import pytest
from small_spaces import drawn

from costmodel.kernels import open_space
from costmodel.records import Candidate, Config, Workload
from costmodel.records._candidate import KernelLaunch

tvm = pytest.importorskip("tvm")
pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

MATMUL = "matmul-m64-n64-k64-float16"
DIVISIBLE = ("matmul-m64-n32-k32-float16", "batch_matmul-b2-m32-n64-k32-float16")
CONV2D = "conv2d-n1-c8-h14-w14-o8-k3-s1"
BYTES = {"float": 4, "half": 2}


def tensorized(name: str) -> list[Candidate]:
    space = open_space(Workload.parse(name), "cuda")
    found = [c for c in drawn(name, "cuda", 16) if space.sketches[c.config.decisions["sketch"]].tensorized]
    assert len(found) >= 3
    return found


def compiled(candidate: Candidate) -> object:
    space = open_space(candidate.workload, "cuda")
    with space.target:
        return tvm.compile(space.schedule(candidate.config).mod, target=space.target).mod


def cuda_source(candidate: Candidate) -> str:
    return str(compiled(candidate).imports[0].inspect_source("cuda"))


def launch_of(candidate: Candidate) -> KernelLaunch:
    (launch,) = candidate.launches
    return launch


def test_a_tensorized_config_is_counted_as_by_hand() -> None:
    """64 x 64 x 64 in 4 x 4 x 4 fragments: 2 blocks of 2 warps, each with 1 x 4 fragments of the result."""
    tiles = {"tensor_tile.C.m": (2, 1, 2, 1, 1), "tensor_tile.C.n": (1, 1, 1, 2, 2)}
    fetch = {f"cooperative_fetch.{buffer}_reindex_shared.dyn": 8 for buffer in "ABC"}
    decisions = {"sketch": 4, **tiles, "tensor_tile.C.k": (2, 2, 1), **fetch, "unroll_explicit.root": 16}
    launch = launch_of(open_space(Workload.parse(MATMUL), "cuda").candidate(Config(decisions)))
    staged_a, staged_b = 32 * (32 + 8), 32 * (64 + 8)  # rows of 32 and 64, each padded by 8
    result, fragment = 64 * 64 * 2, 16 * 16 * 2
    operands = 2 * 2 * (32 * 32 + 32 * 64) * 2  # by 2 blocks in 2 steps
    assert launch == KernelLaunch(
        blocks=2,
        threads_per_block=64,
        shared_bytes=2 * max(staged_a + staged_b, 32 * 64),  # the result takes the operands' place
        local_bytes=(4 + 1 + 4) * fragment // 32,
        global_load_bytes=operands,
        global_store_bytes=result,
        shared_load_bytes=4 * 4 * (1 + 4) * fragment + result,  # 4 warps in 4 steps
        shared_store_bytes=operands + result,
        flops=2 * 64**3,
        tensor_flops=2 * 64**3,
        vector_bytes=16,
        unroll_steps=16,
    )


@pytest.mark.parametrize("name", DIVISIBLE)
def test_tensorized_candidates_do_the_arithmetic_of_their_workload(name: str) -> None:
    for candidate in tensorized(name):
        launch, tiles = launch_of(candidate), candidate.config.decisions
        rows, columns = (tiles[f"tensor_tile.C.{loop}"] for loop in "mn")
        assert launch.flops == launch.tensor_flops == candidate.workload.flops
        assert launch.threads_per_block == 32 * rows[2] * columns[2]
        assert launch.blocks == candidate.workload.dims.get("b", 1) * math.prod((*rows[:2], *columns[:2]))


def test_padding_to_fragments_counts() -> None:
    name = "conv2d_nhwc-n1-c8-h14-w14-o16-k3-s1-float16"  # 196 x 16 x 72, in fragments 208 x 16 x 80
    for candidate in tensorized(name):
        assert launch_of(candidate).tensor_flops == 2 * 208 * 16 * 80


@pytest.mark.parametrize("name", [*DIVISIBLE, "conv2d_nhwc-n1-c8-h14-w14-o16-k3-s1-float16"])
def test_tensorized_kernels_are_launched_as_counted(name: str) -> None:
    for candidate in tensorized(name)[:6]:
        launch, host = launch_of(candidate), dynamic_launch(candidate)
        assert (launch.blocks, launch.threads_per_block, launch.shared_bytes) == host
        assert f"__launch_bounds__({launch.threads_per_block})" in (source := cuda_source(candidate))
        assert source.count("nvcuda::wmma::mma_sync") > 0


def dynamic_launch(candidate: Candidate) -> tuple[int, int, int]:
    """Blocks, threads and dynamic shared memory as the whole lowering of TVM has them."""
    space = open_space(candidate.workload, "cuda")
    pipeline, _, _ = tvm.tirx.get_tir_pipeline("s_tir")
    target = space.target.with_host(tvm.target.Target("llvm"))
    lowered = str(pipeline(tvm.tirx.transform.BindTarget(target)(space.schedule(candidate.config).mod)))
    extents = dict(re.findall(r'launch_thread\("((?:block|thread)Idx\.[xyz])", (\d+)\)', lowered))
    blocks, threads = (
        math.prod(int(extent) for axis, extent in extents.items() if axis.startswith(of))
        for of in ("block", "thread")
    )
    (shared,) = set(re.findall(r"buf_dyn_shmem = T.alloc_buffer\(\((\d+),\), \"uint8\"", lowered))
    return blocks, threads, int(shared)


@pytest.mark.parametrize(("name", "draws"), [("matmul-m32-n32-k32", 24), (CONV2D, 12)])
def test_shared_memory_is_what_the_source_declares(name: str, draws: int) -> None:
    """Pipelined sketches keep three or four copies of what they stage."""
    sketches = set()
    for candidate in drawn(name, "cuda", draws):
        arrays = re.findall(r"__shared__ .*?(float|half) \w+\[(\d+)\]", cuda_source(candidate))
        declared = sum(BYTES[kind] * int(size) for kind, size in arrays)
        assert declared == launch_of(candidate).shared_bytes > 0
        sketches.add(candidate.config.decisions["sketch"])
    assert len(sketches) == 3


def test_kernels_without_tensor_cores_say_so() -> None:
    for candidate in drawn("matmul-m32-n32-k32", "cuda"):
        assert launch_of(candidate).tensor_flops == 0
        assert launch_of(candidate).flops >= candidate.workload.flops
