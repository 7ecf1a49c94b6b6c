"""What-if transforms: what each changes, and that none makes a circle."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_traces import Machine, two_streams

from costmodel.errors import CostModelError
from costmodel.planner import KernelGraph, fuse, on_sms, on_streams, plan, read_graph, replay
from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._fuse import GRAPH_GAP_S, fused_optimizer, remove_launches
from costmodel.planner.whatif._half_precision import half_precision
from costmodel.planner.whatif._parse import parse_what_if
from costmodel.planner.whatif._profiler import without_profiler
from costmodel.planner.whatif._scale import replace_latencies, scale
from costmodel.planner.whatif._streams import minimum_equivalent
from costmodel.records import find_device

pytestmark = pytest.mark.white_box

DIAMOND = [
    {"id": "in", "duration_s": 1e-6},
    {"id": "left", "duration_s": 8e-6, "after": ["in"]},
    {"id": "right", "duration_s": 6e-6, "after": ["in"]},
    {"id": "out", "duration_s": 1e-6, "after": ["left", "right"]},
]


def load(tmp_path: Path, tasks: list[dict[str, Any]]) -> KernelGraph:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return read_graph(path).graph


def names(graph: KernelGraph) -> list[str]:
    return [graph.name(task) for task in range(len(graph))]


@pytest.fixture
def trace(tmp_path: Path) -> KernelGraph:
    return read_kineto(two_streams(Machine()).save(tmp_path / "trace.json")).graph


def test_latencies_are_replaced_by_pattern_and_the_last_one_counts(trace: KernelGraph) -> None:
    changed = replace_latencies(trace, {"sgemm*": 1e-6, "SGEMM_graph": 2e-6})
    by_name = {changed.name(i): changed.durations_s[i] for i in np.flatnonzero(changed.on_device)}
    assert by_name["sgemm_128x64"] == 1e-6
    assert by_name["sgemm_graph"] == 2e-6
    assert by_name["conv_fprop"] == pytest.approx(35e-6)
    assert "12 kernels" not in changed.assumptions[0]
    assert len(changed.assumptions) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: scale(graph, "no such kernel", 2.0), "none matches 'no such kernel'"),
        (lambda graph: scale(graph, "aten::mm", 2.0), "must match the name of a kernel"),
        (lambda graph: scale(graph, "sgemm", -1.0), "factor must be a non-negative number"),
        (lambda graph: replace_latencies(graph, {"sgemm": float("nan")}), "must be a non-negative number"),
        (lambda graph: on_sms(graph, 2**31, recorded=8), "sms must be a whole number"),
        (lambda graph: on_sms(graph, 1.5, recorded=8), "sms must be a whole number"),
        (lambda graph: fused_optimizer(graph, factor=float("inf")), "factor must be a non-negative number"),
        (lambda graph: on_sms(graph, 0), "at least 1, but got 0"),
        (lambda graph: on_sms(graph, 8), "sms:N=8"),
        (lambda graph: on_streams(graph, 0), "streams must be a whole number"),
    ],
)
def test_a_change_that_does_not_apply_is_refused(
    trace: KernelGraph, change: Callable[[KernelGraph], KernelGraph], message: str
) -> None:
    with pytest.raises(CostModelError, match=message):
        change(trace)


def test_fewer_sms_make_kernels_slower_by_their_blocks_or_as_measured(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        [
            {"id": "gemm", "duration_s": 5e-6, "sms": 128},
            {"id": "gemm_of_few", "duration_s": 5e-6, "sms": 128, "blocks": 32},
            {"id": "gemm_of_many", "duration_s": 5e-6, "sms": 128, "blocks": 129},
            {"id": "add", "duration_s": 5e-6, "sms": 128},
            {"id": "softmax", "duration_s": 5e-6, "sms": 128},
            {"id": "tiny", "duration_s": 5e-7, "sms": 128},
            {"id": "copy", "kind": "copy", "duration_s": 3e-6},
        ],
    )
    # 1.2 us to start; 3.8 us of work, the SMs' share of which takes 4 times as long, 1 or 5 rounds for 2.
    gemm, many = 1.2 + 3.8 * slower(0.15, 4), 1.2 + 3.8 * slower(0.15, 2.5)
    add, softmax = 1.2 + 3.8 * slower(0.65, 4), 1.2 + 3.8 * slower(0.55, 4)
    changed = on_sms(graph, 32)
    np.testing.assert_allclose(changed.durations_s * 1e6, [gemm, 5.0, many, add, softmax, 0.5, 3.0])
    assert changed.sms.tolist() == [32, 32, 32, 32, 32, 32, 0]
    assert on_sms(graph, 32, recorded=64).durations_s[0] * 1e6 == pytest.approx(1.2 + 3.8 * slower(0.15, 2))
    measured = on_sms(graph, 32, latencies_s={"gemm_of_few": {32: 9e-6, 16: 1.0}, "add": {16: 1.0}})
    np.testing.assert_allclose(measured.durations_s * 1e6, [gemm, 9.0, many, add, softmax, 0.5, 3.0])


def test_more_sms_give_back_what_fewer_took(tmp_path: Path) -> None:
    """The memory has less of the time on a part than on the whole GPU, which the graph names."""
    whole = [
        {"id": name, "duration_s": 50e-6, "sms": 132, "blocks": 264, "workload": workload}
        for name, workload in (("gemm", "matmul-m1024-n1024-k1024-float16"), ("add", ""))
    ]
    graph = load(tmp_path, whole).assuming(device=find_device("H100 SXM"))
    part = on_sms(graph, 32)
    assert (part.durations_s > 1.5 * graph.durations_s).all()
    assert on_sms(part, 132).durations_s == pytest.approx(graph.durations_s)
    assert on_sms(part, 64).durations_s == pytest.approx(on_sms(graph, 64).durations_s)


def slower(memory: float, pace: float, of_memory: float = 1.0) -> float:
    """What work takes of which a part is the memory's, and the SMs take ``pace`` times as long."""
    moved, computed = memory * of_memory, 1 - memory
    return float(np.hypot(moved, computed * pace) / np.hypot(moved, computed))


@pytest.mark.parametrize(
    ("name", "blocks", "warps", "at_once", "memory", "pace"),
    [
        ("sgemm", 132, 4, 2, 0.15, 8 / 5),  # two blocks of 4 warps for one, which does not keep 5 busy
        ("sgemm", 264, 4, 1, 0.15, 2),
        ("sgemm", 330, 4, 2, 0.15, 3 / 2),  # the fifth block of an SM takes as long as two
        ("sgemm", 330, 4, 4, 0.15, (16 + 5) / 12),
        ("gemmSN_TN_kernel", 264, 4, 5, 0.15, 1),  # neither two nor four blocks of 4 warps keep 16 busy
        ("gemmSN_TN_kernel", 528, 4, 8, 0.15, 2),
        ("sgemm_tf32", 132, 8, 2, 0.45, 2),
        ("nvjet_sm90_hsh", 132, 8, 2, 0.45, 2),
        ("gelu", 132, 4, 2, 0.65, 1),  # neither 4 nor 8 warps keep 10 busy
        ("gelu", 264, 4, 2, 0.65, 2),  # two rounds of two blocks, for one
        ("gelu", 264, 8, 1, 0.65, 2),
        ("gelu", 660, 8, 4, 0.65, (2 * 32 + 16) / (32 + 10)),  # 2 rounds of 4 and 2 blocks, for 4 and 1
    ],
)
def test_the_fullest_sm_does_blocks_in_rounds_of_what_it_holds(  # noqa: PLR0917 (columns)
    tmp_path: Path, name: str, blocks: int, warps: int, at_once: int, memory: float, pace: float
) -> None:
    task = {"id": name, "duration_s": 11.2e-6, "sms": 132, "blocks": blocks}
    graph = load(tmp_path, [task | {"block_warps": warps, "sm_blocks": at_once}])
    assert on_sms(graph, 66).durations_s[0] * 1e6 == pytest.approx(1.2 + 10 * slower(memory, pace))


@pytest.mark.parametrize(("blocks", "took_us", "takes_us"), [(256, 675.2, 1335.0), (512, 690.0, 1018.0)])
def test_large_products_on_sixteen_sms_fewer_take_whole_rounds(
    tmp_path: Path, blocks: int, took_us: float, takes_us: float
) -> None:
    """Of 2 ranks on H200s, as recorded: experiments/several_ranks/recorded_sms."""
    task = {"id": "sgemm", "duration_s": took_us * 1e-6, "sms": 132, "blocks": blocks}
    graph = load(tmp_path, [task | {"block_warps": 4, "sm_blocks": 2}])
    assert on_sms(graph, 112).durations_s[0] * 1e6 == pytest.approx(takes_us, rel=0.02)


def test_the_time_of_the_profiler_is_taken_from_the_host_alone(tmp_path: Path) -> None:
    """Five calls of 10 us, 2 us between them, each of which launches a kernel of 6 us, and a wait of 1 us."""
    tasks: list[dict[str, Any]] = []
    for i in range(5):
        tasks.append({"id": f"l{i}", "kind": "launch", "duration_s": 10e-6, "gap_s": 2e-6 if i else 0})
        tasks.append({"id": f"k{i}", "duration_s": 6e-6, "launched_by": f"l{i}", "launch_s": 5e-6})
    tasks.append({"id": "wait", "kind": "sync", "duration_s": 1e-6, "after": ["k4"]})
    graph = load(tmp_path, tasks)
    assert replay(graph).makespan_s == pytest.approx(60e-6)  # 4 x 12 + 5 + 6 + 1
    half = without_profiler(graph, 33e-6)  # 4 x 6 + 2.5 + 6 + 0.5: a launch takes effect earlier, too
    np.testing.assert_allclose(
        half.durations_s, np.where(half.on_device, 6e-6, graph.durations_s / 2), rtol=1e-5
    )
    assert "the host takes 0.50 of" in half.assumptions[-1]
    assert replay(half).makespan_s == pytest.approx(33e-6)
    device = without_profiler(graph, 20e-6)  # less than 5 x 6, which the host cannot help
    assert replay(device).makespan_s == pytest.approx(20e-6, rel=1e-4)
    np.testing.assert_allclose(device.durations_s[device.on_device], 4e-6, rtol=1e-4)
    assert not any("that much" in said for said in device.assumptions)
    one_of_three = without_profiler(graph, 10e-6)  # the time of a step, where the graph has several
    assert "measure all steps" in one_of_three.assumptions[-1]
    np.testing.assert_array_equal(without_profiler(graph, 120e-6).durations_s, graph.durations_s)
    assert plan(graph, "graphs", measured_s=33e-6).before.makespan_s == pytest.approx(33e-6)
    with pytest.raises(CostModelError, match="must be positive, but got 0 s"):
        without_profiler(graph, 0)
    for measured in (33e-3, 33e-9):  # milliseconds and thousands of seconds
        with pytest.raises(CostModelError, match="must be in seconds and of the same work"):
            without_profiler(graph, measured)


def test_where_the_device_sets_the_pace_the_host_takes_its_usual_part(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(20):
        machine.operator("aten::mm", "mm", 100.0)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    host = ~graph.on_device
    changed = without_profiler(graph, machine.makespan_s, usual_host_share=0.6)
    np.testing.assert_allclose(changed.durations_s[host], 0.6 * graph.durations_s[host])
    assert replay(changed).makespan_s == pytest.approx(machine.makespan_s, rel=0.01)


@pytest.mark.parametrize("off", [-0.005, 0.005])
def test_where_the_usual_part_of_the_host_fits_kernels_keep_their_time(off: float, tmp_path: Path) -> None:
    """Within a percent of the measured time gaps and kernels are left alone, as they cannot help."""
    machine = Machine()
    for _ in range(20):
        machine.operator("aten::mm", "mm", 1.0)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    measured = replay(without_profiler(graph, 0.65 * replay(graph).makespan_s)).makespan_s * (1 + off)
    share = without_profiler(graph, measured, usual_host_share=0.6).durations_s[0] / graph.durations_s[0]
    changed = without_profiler(graph, measured, usual_host_share=share * (1 - off))
    np.testing.assert_allclose(changed.durations_s[graph.on_device], graph.durations_s[graph.on_device])
    assert replay(changed).makespan_s == pytest.approx(measured, rel=0.01)


def test_gaps_of_a_cuda_graph_are_the_profilers_where_the_host_is_not(tmp_path: Path) -> None:
    """20 kernels of 2 us and gaps of 0.75 us, which take 0.25 us without the profiler."""
    machine = Machine()
    machine.graph([("add_kernel", 2.0)] * 20)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    measured = 20 * 2e-6 + 19 * 0.25e-6
    changed = without_profiler(graph, measured)
    assert replay(changed).makespan_s == pytest.approx(measured, rel=1e-4)
    np.testing.assert_allclose(changed.durations_s[changed.on_device], 2e-6)
    assert "the host takes 0.00, gaps between kernels 0.3" in changed.assumptions[-1]


def halves_us(tmp_path: Path, *tasks: dict[str, Any]) -> list[float]:
    """What kernels of 25.2 us take in half precision."""
    made = [{"id": f"{i}", "kind": "kernel", "duration_s": 25.2e-6, **task} for i, task in enumerate(tasks)]
    return (half_precision(load(tmp_path, made)).durations_s * 1e6).round(2).tolist()


def test_half_precision_is_for_products_and_for_bytes(tmp_path: Path) -> None:
    names = ["sgemm", "gemvx", "xmma_tf32", "xmma_f16f16", "vectorized_elementwise", "layer_norm", "index"]
    expected = [2.8 + 0.05 * 22.4, 13.2, 13.2, 25.2, 1.2 + 0.47 * 24, 1.2 + 0.8 * 24, 25.2]
    assert halves_us(tmp_path, *({"name": name} for name in names)) == pytest.approx(expected, abs=0.01)
    short = [{"name": name, "duration_s": 2e-6} for name in names]
    assert halves_us(tmp_path, *short) == [2.0] * len(names)  # latency, which no type changes
    assert halves_us(tmp_path, {"kind": "copy"}) == [25.2]
    graph = load(tmp_path, [{"id": name, "duration_s": 25.2e-6} for name in names])
    (change,) = parse_what_if("half=0.5")
    changed = change(graph)
    assert changed.durations_s[0] * 1e6 == pytest.approx(13.2)
    assert "1 matrix products on CUDA cores move to Tensor Cores, 5 kernels" in changed.assumptions[0]


def test_some_kernels_gain_less_in_half_precision(tmp_path: Path) -> None:
    """Few blocks wait for themselves; rows of 98 numbers are no 16 bytes; few channels stay on lanes."""
    few = {"name": "layer_norm", "blocks": 8, "sms": 132}
    assert halves_us(tmp_path, few, few | {"blocks": 4096}) == [25.2, 20.4]
    unaligned = {"name": "sgemm", "workload": "matmul-m1024-n98-k512"}
    assert halves_us(tmp_path, unaligned, unaligned | {"workload": "matmul-m98-n1024-k512"}) == [8.99, 3.92]
    first = {"name": "xmma_fprop_implicit_gemm_f32f32"}
    assert halves_us(tmp_path, {"name": "xmma_tf32"}, first) == [13.2, 20.4]
    assert halves_us(tmp_path, first, first) == [
        20.4,
        3.92,
    ]  # nothing in TF32: only the first reads a picture
    depthwise = [{"name": f"conv_depthwise2d_forward_kernel<{size}, float, int>"} for size in (7, 5)]
    assert halves_us(tmp_path, *depthwise) == [25.2, 12.48]
    turns = [{"name": f"cudnn::{name}Kernel<float, float>"} for name in ("nchwToNhwc", "nhwcToNchw")]
    assert halves_us(tmp_path, *turns) == [22.8, 22.8]
    assert halves_us(tmp_path, first, {"name": "sm90_xmma_fprop_tf32"}) == [20.4, 16.08]
    older, indexed = (f"sm80_xmma_fprop_implicit_gemm_{how}tf32f32" for how in ("", "indexed_"))
    assert halves_us(tmp_path, {"name": older}, {"name": indexed}) == [12.0, 16.08]
    wide, narrow = (f"fmha_cutlassF_f32_aligned_32x128_{how}_sm80" for how in ("gmem", "rf"))
    assert halves_us(tmp_path, {"name": wide}, {"name": narrow}) == [9.6, 3.92]
    computing = [
        {"name": f"vectorized_elementwise_kernel<{name}>"} for name in ("GeluCUDA", "softplus_kernel")
    ]
    assert halves_us(tmp_path, *computing) == [16.08, 24.0]


@pytest.mark.parametrize(
    "name", ["xmma_gemm_f32f32_tn_n_tilesize128x64x8", "cutlass_80_simt_sgemm_128x64_8x4"]
)
def test_a_product_in_half_precision_writes_its_output(name: str, tmp_path: Path) -> None:
    tiles = {"name": name, "blocks": 1000, "sms": 132}
    found = halves_us(tmp_path, tiles)
    assert found == pytest.approx([2.8 + 0.05 * 22.4 + 1000 * 128 * 64 * 0.65e-6], abs=0.01)


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0])
def test_a_factor_given_counts_for_all_products_on_cuda_cores(factor: float, tmp_path: Path) -> None:
    products = [
        {"name": "sgemm", "workload": "matmul-m1024-n1024-k512"},
        {"name": "sgemm", "workload": "matmul-m1024-n98-k512"},
        {"name": "xmma_fprop_implicit_gemm_f32f32"},
        {"name": "fmha_cutlassF_f32_aligned_32x128_gmem_sm80"},
        {"name": "xmma_tf32"},
    ]
    graph = load(tmp_path, [{"id": str(i), "duration_s": 25.2e-6, **each} for i, each in enumerate(products)])
    found_us = half_precision(graph, factor).durations_s * 1e6
    assert found_us == pytest.approx([1.2 + factor * 24] * 4 + [13.2])


def test_half_precision_adds_conversions_and_takes_epilogues_away(tmp_path: Path) -> None:
    turning = {"name": "xmma_fprop_tf32f32_f32_nhwckrsc_nchw_tile", "resource": "stream"}
    found = halves_us(tmp_path, turning, {"name": "vectorized_elementwise", "resource": "stream"}, turning)
    assert found == [16.08, 12.48, 12.48, 16.08]  # as much as the next one moves, if there is one
    assert halves_us(tmp_path, {"name": "bn_fw_inf_1C11_kernel_NCHW"}) == [20.4, 1.9, 1.9]
    assert halves_us(tmp_path, {"name": "bn_fw_inf_1C11_kernel_NHWC"}) == [8.4, 1.9, 1.9]
    assert halves_us(tmp_path, {"name": "cublasLt::epilogue::impl::globalKernel"}) == [0.0]


def test_training_in_half_precision_casts(tmp_path: Path) -> None:
    """2.7 us and 2% of the product behind it, and 18 us of the host; optimisers stay as they are."""
    launch = {"kind": "launch", "resource": "host", "duration_s": 4e-6}
    product = {"name": "sgemm", "launched_by": "0", "launch_s": 1e-6}
    step = {"name": "vectorized_elementwise", "scope": "Optimizer.step#SGD.step"}
    assert halves_us(tmp_path, launch, product, step) == [22.0, 3.92, 3.2, 25.2]
    assert halves_us(tmp_path, launch, product) == [4.0, 3.92]
    fused = {"name": "multi_tensor_apply_kernel<FusedOptimizer>"}
    assert halves_us(tmp_path, launch, product, fused) == [22.0, 3.92, 3.2, 25.2]


def test_training_with_weights_in_half_precision_casts_nothing(tmp_path: Path) -> None:
    product, copy = {"name": "sgemm"}, {"name": "Memcpy DtoD (Device -> Device)", "kind": "copy"}
    step = {"name": "multi_tensor_apply_kernel<float>", "scope": "Optimizer.step#SGD.step"}
    tasks = [{"id": f"{i}", "duration_s": 25.2e-6, **task} for i, task in enumerate((product, copy, step))]
    (change,) = parse_what_if("half:weights")
    assert change(load(tmp_path, tasks)).durations_s * 1e6 == pytest.approx([3.92, 12.6, 12.48])
    assert halves_us(tmp_path, product, copy, step) == [3.92, 3.2, 25.2, 25.2]
    assert halves_us(tmp_path, product, copy) == [3.92, 12.6]


def test_what_is_added_runs_before_what_waited_and_keeps_its_time_on_fewer_sms(tmp_path: Path) -> None:
    norm = {"id": "bn_fw_inf_NHWC", "resource": "a", "duration_s": 25.2e-6, "sms": 132, "blocks": 4224}
    next_one = {"id": "memcpy", "kind": "copy", "resource": "b", "duration_s": 1e-6, "after": [norm["id"]]}
    half = half_precision(load(tmp_path, [norm, next_one]))
    assert half.names[half.name_ids[1]] == half.names[half.name_ids[2]] == "conversion for half precision"
    assert replay(half).makespan_s * 1e6 == pytest.approx(8.4 + 2 * 1.9 + 1)
    fewer = on_sms(half, 33).durations_s * 1e6
    assert fewer[1:].tolist() == pytest.approx([1.9, 1.9, 1.0])  # a block each
    assert fewer[0] == pytest.approx(1.2 + 7.2 * slower(0.65, 4, 0.8))


def test_products_that_move_to_tensor_cores_go_with_sms(tmp_path: Path) -> None:
    """Their kernels there have other blocks; those of a product that does not fill the GPU stay few."""
    tasks = [{"id": f"sgemm{n}", "duration_s": 25.2e-6, "sms": 132, "blocks": n} for n in (768, 16)]
    fewer = on_sms(half_precision(load(tmp_path, tasks)), 33).durations_s * 1e6
    assert fewer == pytest.approx([1.2 + 2.72 * slower(0.45, 4), 3.92])


@pytest.mark.parametrize(("device", "memory"), [("H100 SXM", 1.0), ("H200", (3.352 / 4.8) ** 0.5)])
def test_a_faster_memory_has_less_of_the_time(device: str, memory: float, tmp_path: Path) -> None:
    names = ("gelu", "conv_depthwise2d_forward_kernel<7, float, int>", "nvjet_sm90_hsh")
    graph = load(tmp_path, [{"id": name, "duration_s": 11.2e-6, "sms": 132} for name in names])
    found = on_sms(graph.assuming(device=find_device(device)), 66).durations_s * 1e6
    expected = [1.2 + 10 * slower(shared, 2, memory) for shared in (0.65, 0.15, 0.45)]
    assert found == pytest.approx(expected, rel=1e-3)


def test_attention_in_parts_is_one_kernel_in_half_precision(tmp_path: Path) -> None:
    machine = Machine()
    called = machine.host("aten::_scaled_dot_product_attention_math", 0.0, "cpu_op")
    for operator, kernel in (("aten::bmm", "sgemm"), ("aten::_softmax", "softmax"), ("aten::bmm", "sgemm")):
        machine.operator(operator, kernel, 50.0)
    called["dur"] = machine.now - called["ts"]
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = half_precision(graph)
    (kernel,) = np.flatnonzero(changed.of_kind(TaskKind.KERNEL))
    assert changed.durations_s[kernel] * 1e6 == pytest.approx(2.8 + 0.05 * 97.2)


def test_attention_in_parts_is_known_in_a_cuda_graph_by_its_kernels(tmp_path: Path) -> None:
    """From the scaling of queries to the second product, of 50 us both; another softmax stays."""
    scaling = "vectorized_elementwise_kernel<4, AUnaryFunctor<float, float, float, MulFunctor<float> >"
    attention = [scaling, "where_kernel", scaling, "sgemm", "softmax", "vectorized_isneginf", "sgemm"]
    names = ["sgemm", scaling, *attention, "layer_norm", "sgemm", "softmax", "sgemm", *attention[3:]]
    tasks = [
        {"id": str(i), "name": name, "duration_s": 50e-6, "resource": "stream"}
        for i, name in enumerate(names)
    ]
    changed = half_precision(load(tmp_path, tasks))
    left = [changed.name(task) for task in range(len(changed))]
    assert left == ["sgemm", scaling, "sgemm", "layer_norm", "sgemm", "softmax", "sgemm", "sgemm"]
    assert changed.durations_s[[2, 7]] * 1e6 == pytest.approx([2.8 + 0.05 * 97.2] * 2)


def test_attention_in_parts_stays_in_the_scope_that_its_author_named(tmp_path: Path) -> None:
    machine = Machine()
    named = machine.host("layer", 0.0, "user_annotation")
    called = machine.host("aten::_scaled_dot_product_attention_math", 0.0, "cpu_op")
    for operator, kernel in (("aten::bmm", "sgemm"), ("aten::_softmax", "softmax")):
        machine.operator(operator, kernel, 50.0)
    called["dur"] = named["dur"] = machine.now - called["ts"]
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    assert fuse(graph, "*", scope="layer").of_kind(TaskKind.KERNEL).sum() == 1
    assert half_precision(graph).of_kind(TaskKind.KERNEL).sum() == 1


@pytest.mark.parametrize(("step", "share"), [("Adam", 1 / 3), ("SGD", 5 / 8), ("Lion", 1.0)])
def test_a_fused_optimiser_moves_each_number_once(step: str, share: float, tmp_path: Path) -> None:
    scope = {"scope": f"Optimizer.step#{step}.step", "resource": "stream", "duration_s": 21.2e-6}
    graph = load(tmp_path, [{"id": name, **scope} for name in ("multiply", "add")])
    (durations_s,) = [fused_optimizer(graph).durations_s]
    assert durations_s * 1e6 == pytest.approx([1.2 + share * 40])
    assert fused_optimizer(graph, factor=0.5).durations_s * 1e6 == pytest.approx([21.2])


@pytest.mark.parametrize(
    ("step", "kernels", "expected_us"),
    [
        ("Adam", ["multi_tensor_apply_kernel<FusedAdamMathFunctor>"] * 2, 1.2 + 40),
        ("Adam", ["add", "multi_tensor_apply_kernel<FusedAdamMathFunctor>"], 1.2 + 40),
        ("SGD", ["add", "add"], 1.2 + 40),
    ],
)
def test_what_moves_each_number_once_already_is_not_fused_again(
    step: str, kernels: list[str], expected_us: float, tmp_path: Path
) -> None:
    scope = {"scope": f"Optimizer.step#{step}.step", "resource": "stream", "duration_s": 21.2e-6}
    graph = load(tmp_path, [{"id": str(i), "name": name, **scope} for i, name in enumerate(kernels)])
    assert fused_optimizer(graph).durations_s * 1e6 == pytest.approx([expected_us])


def test_launches_up_to_a_wait_become_one(tmp_path: Path) -> None:
    """Of 5 operators with tiny kernels and 5 behind a wait, the host has 2 launches and the wait to do."""
    machine = Machine()
    for _ in range(2):
        for _ in range(5):
            machine.operator("aten::add", "add_kernel", 2.0)
        machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = remove_launches(graph)
    assert int(changed.of_kind(TaskKind.LAUNCH).sum()) == 2
    assert changed.of_kind(TaskKind.KERNEL).sum() == 10
    assert "10 launches became 2" in changed.assumptions[0]
    assert names(changed).count("aten::add") == 0  # all that the host did is part of the runs
    assert replay(changed).makespan_s < 0.5 * replay(graph).makespan_s
    assert replay(changed).device_busy_s == pytest.approx(20e-6)


@pytest.mark.parametrize("kernels", [[2.0] * 20, [30.0] * 6 + [2.0] * 30])
def test_a_graph_launched_by_the_machine_is_what_was_predicted(tmp_path: Path, kernels: list[float]) -> None:
    eager, captured = Machine(), Machine()
    for duration in kernels:
        eager.operator("aten::add", "add_kernel", duration)
    eager.synchronize()
    captured.graph([("add_kernel", duration) for duration in kernels])
    captured.synchronize()
    graph = read_kineto(eager.save(tmp_path / "trace.json")).graph
    (change,) = parse_what_if("graphs=0.75e-6")
    told = replay(change(graph))
    assert told.makespan_s == pytest.approx(
        replay(read_kineto(captured.save(tmp_path / "g.json")).graph).makespan_s, rel=1e-3
    )
    assert "0.75 us pass between kernels" in told.graph.assumptions[-1]
    (change,) = parse_what_if("graphs")
    predicted = replay(change(graph))
    gaps = (len(kernels) - 1) * (0.75e-6 - GRAPH_GAP_S)
    assert predicted.makespan_s == pytest.approx(told.makespan_s - gaps)


def test_threads_that_hand_work_to_each_other_are_one_graph(tmp_path: Path) -> None:
    """A thread launches a kernel, another the next, the first one the last, and waits."""
    tasks: list[dict[str, Any]] = []
    after: list[str] = []
    for call, thread in (("forward", "main"), ("backward", "helper"), ("step", "main")):
        work = {"id": f"{call} work", "kind": "host", "resource": thread, "duration_s": 20e-6, "after": after}
        launch = {"id": call, "kind": "launch", "resource": thread, "duration_s": 5e-6}
        kernel = {"id": f"{call} kernel", "duration_s": 3e-6, "launched_by": call, "launch_s": 6e-6}
        tasks += [work, launch, kernel]
        after = [call]
    wait = {"id": "wait", "kind": "sync", "resource": "main", "duration_s": 1e-6, "after": ["step kernel"]}
    graph = load(tmp_path, [*tasks, wait])
    assert replay(graph).makespan_s > 75e-6
    changed = remove_launches(graph, gap_s=1e-6)
    assert names(changed) == ["forward", "forward kernel", "backward kernel", "step kernel", "wait"]
    assert replay(changed).makespan_s == pytest.approx((6 + 3 + 1 + 3 + 1 + 3 + 1) * 1e-6)


def test_a_run_of_launches_ends_where_the_host_needs_what_a_kernel_made(tmp_path: Path) -> None:
    tasks = [
        {"id": "call", "kind": "launch", "duration_s": 1e-6},
        {"id": "kernel", "duration_s": 5e-6, "launched_by": "call"},
        {"id": "decide", "kind": "host", "duration_s": 1e-6, "after": ["kernel"]},
        {"id": "call_again", "kind": "launch", "duration_s": 1e-6},
        {"id": "kernel_again", "duration_s": 5e-6, "launched_by": "call_again"},
    ]
    graph = load(tmp_path, tasks)
    changed = remove_launches(graph)
    assert names(changed) == names(graph)
    assert replay(changed).makespan_s == pytest.approx(replay(graph).makespan_s)


def test_elementwise_kernels_that_follow_each_other_become_one(tmp_path: Path) -> None:
    machine = Machine()
    for kernel, duration in (("mm", 20.0), ("elementwise_a", 3.0), ("elementwise_b", 5.0), ("mm", 20.0)):
        machine.operator(f"aten::{kernel}", kernel, duration)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = fuse(graph)
    kernels = np.flatnonzero(changed.on_device)
    assert [changed.name(i) for i in kernels] == ["mm", "elementwise_b", "mm"]
    np.testing.assert_allclose(changed.durations_s[kernels] * 1e6, [20.0, 5.0, 20.0])
    assert names(changed).count("cudaLaunchKernel") == 3
    assert "2 kernels became 1" in changed.assumptions[0]
    assert "1 launches went" in changed.assumptions[0]


def test_only_kernels_of_a_scope_become_one(tmp_path: Path) -> None:
    tasks = [
        {"id": "a", "name": "elementwise", "duration_s": 1e-6},
        {"id": "b", "name": "elementwise", "duration_s": 2e-6, "scope": "gelu"},
        {"id": "c", "name": "elementwise", "duration_s": 1e-6, "scope": "gelu"},
        {"id": "d", "name": "elementwise", "duration_s": 1e-6, "scope": "gelu_of_others"},
    ]
    with pytest.raises(CostModelError, match=r"'gelu\?' matches none of \['gelu', 'gelu_of_others'\]"):
        fuse(load(tmp_path, tasks), scope="gelu?")
    changed = fuse(load(tmp_path, tasks), "*", scope="[g]elu")
    np.testing.assert_allclose(changed.durations_s * 1e6, [1.0, 2.0, 1.0])


def test_fused_products_take_their_sum_and_the_host_s_work_between_goes(tmp_path: Path) -> None:
    machine = Machine()
    scope = machine.host("attention", 0.0, "user_annotation")
    for kernel, duration in (("sgemm", 6.0), ("softmax", 9.0), ("sgemm", 7.0)):
        machine.operator("aten::op", kernel, duration)
    scope["dur"] = machine.now - scope["ts"]
    machine.operator("aten::mm", "sgemm", 20.0)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = fuse(graph, "*", scope="attention")
    np.testing.assert_allclose(changed.durations_s[changed.on_device] * 1e6, [13.0, 20.0])
    assert names(changed).count("cudaLaunchKernel") == 2
    # Of two operators 3 us before the launch, its 5.25 us and 2 us behind the one before are gone.
    gone = graph.durations_s[~graph.on_device].sum() - changed.durations_s[~changed.on_device].sum()
    assert gone * 1e6 == pytest.approx(2 * 10.25)


def test_a_kernel_that_something_else_waits_for_ends_a_chain(tmp_path: Path) -> None:
    tasks = [
        {"id": "a", "name": "elementwise", "duration_s": 1e-6},
        {"id": "b", "name": "elementwise", "duration_s": 1e-6, "after": ["a"]},
        {"id": "wait", "kind": "sync", "duration_s": 1e-6, "after": ["b"]},
        {"id": "c", "name": "elementwise", "duration_s": 1e-6, "launched_by": "wait"},
        {"id": "d", "name": "elementwise", "duration_s": 1e-6},
    ]
    changed = fuse(load(tmp_path, tasks))
    assert int(changed.on_device.sum()) == 2
    assert replay(changed).makespan_s == pytest.approx(2e-6)


def test_host_work_that_others_wait_for_is_not_moved_behind_them(tmp_path: Path) -> None:
    step = {"scope": "Optimizer.step#SGD.step"}
    tasks = [
        {"id": "begin", "kind": "host", "duration_s": 1e-6, **step},
        {"id": "log", "kind": "host", "duration_s": 1e-6, "after": ["begin"]},
        {"id": "launch", "kind": "launch", "duration_s": 1e-6, **step},
    ]
    changed = fused_optimizer(load(tmp_path, tasks))
    assert networkx.is_directed_acyclic_graph(changed.to_networkx())
    assert replay(changed).makespan_s == pytest.approx(3e-6)


def test_a_step_of_an_optimiser_becomes_one_kernel_and_one_launch(tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "mm", 30.0)
    step = machine.host("Optimizer.step#Adam.step", 0.0, "user_annotation")
    for _ in range(6):
        machine.operator("aten::mul_", "elementwise", 4.0)
    step["dur"] = machine.now - step["ts"]
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = fused_optimizer(graph, factor=0.5)
    kernels = np.flatnonzero(changed.on_device)
    np.testing.assert_allclose(changed.durations_s[kernels] * 1e6, [30.0, 12.0])
    assert names(changed).count("cudaLaunchKernel") == 2
    unchanged = fused_optimizer(graph, scope="no such scope")
    assert unchanged.durations_s.tolist() == graph.durations_s.tolist()
    assert unchanged.assumptions[-1].endswith("within an annotation no such scope.")


def test_where_nothing_can_be_fused_this_is_said(trace: KernelGraph) -> None:
    changed = fuse(trace, "sgemm")
    assert changed.durations_s.tolist() == trace.durations_s.tolist()
    assert changed.assumptions[-1].startswith("No kernels became one")


def test_branches_run_at_once_on_two_streams(tmp_path: Path) -> None:
    graph = load(tmp_path, DIAMOND)
    assert replay(graph).makespan_s == pytest.approx(16e-6)
    assert replay(on_streams(graph, 2)).makespan_s == pytest.approx(10e-6)
    assert replay(on_streams(graph, 8)).makespan_s == pytest.approx(10e-6)
    assert replay(on_streams(graph, 1)).makespan_s == pytest.approx(16e-6)
    assert replay(on_streams(graph, 2, slowdown=1.5)).makespan_s == pytest.approx(15e-6)
    assert len(on_streams(graph, 8).resources) == 2


def test_the_order_of_a_trace_is_not_taken_for_what_kernels_need(tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "mm", 3.0)
    machine.operator("aten::mm", "mm", 3.0)
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    with pytest.raises(CostModelError, match="write it as JSON with `after`"):
        on_streams(graph, 2)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_only_dependencies_that_others_imply_are_left_out(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    sources, targets = np.nonzero(np.triu(draw.random((n, n)) < 0.4, 1))
    whole = networkx.DiGraph()
    whole.add_nodes_from(range(n))
    whole.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    assert set(minimum_equivalent(n, sources, targets)) == set(networkx.transitive_reduction(whole).edges)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tasks of a thread and two streams; each may need any earlier ones."""
    kinds = st.sampled_from(["kernel", "kernel", "launch", "launch", "host", "sync"])
    tasks: list[dict[str, Any]] = []
    for i in range(draw(st.integers(2, 24))):
        kind = draw(kinds)
        task: dict[str, Any] = {
            "id": str(i),
            "kind": kind,
            "duration_s": draw(st.sampled_from([0.0, 1e-6, 3e-6])),
        }
        task["name"] = draw(st.sampled_from(["mm", "elementwise"]))
        task["scope"] = draw(st.sampled_from(["", "Optimizer.step#SGD.step"]))
        if kind == "kernel":
            task |= {"resource": draw(st.sampled_from(["stream 0", "stream 1"])), "gap_s": 1e-7, "sms": 8}
            launches = [each["id"] for each in tasks if each["kind"] == "launch"]
            if launches:
                task |= {"launched_by": draw(st.sampled_from(launches)), "launch_s": 2e-6}
        if tasks and draw(st.booleans()):
            earlier = st.sampled_from([each["id"] for each in tasks])
            task["after"] = draw(st.lists(earlier, min_size=1, max_size=2, unique=True))
        tasks.append(task)
    return tasks


def says_what_kernels_need(graph: KernelGraph) -> bool:
    edges, on_device = graph.dependencies, graph.on_device
    data = (edges.kinds == DependencyKind.DATA) & on_device[edges.sources] & on_device[edges.targets]
    return bool(data.any()) or on_device.sum() < 2


CHANGES = ["fuse", "fuse:mm", "graphs", "half", "optimizer=0.5", "sms=4", "streams=2", "streams=auto"]


@settings(max_examples=100)
@given(graphs(), st.permutations(CHANGES))
def test_no_order_of_transforms_makes_a_circle(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[dict[str, Any]], changes: list[str]
) -> None:
    graph = load(tmp_path_factory.mktemp("graph"), tasks)
    total = graph.durations_s.sum() * 2 + 1
    for change in changes:
        if change.startswith("streams") and not says_what_kernels_need(graph):
            with pytest.raises(CostModelError, match="write it as JSON with `after`"):
                parse_what_if(change)[0](graph)
            continue
        changed = parse_what_if(change)[0](graph)
        assert networkx.is_directed_acyclic_graph(changed.to_networkx())
        assert len(changed.assumptions) > len(graph.assumptions)
        timeline = replay(changed)
        assert 0 <= timeline.makespan_s < total
        for resource in range(len(changed.resources)):
            on_it = changed.resource_ids == resource
            assert (timeline.starts_s[on_it][1:] >= timeline.ends_s[on_it][:-1] - 1e-12).all()
        graph = changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuze", "Did you mean 'fuse'"),
        ("scale:mm", "written scale:PATTERN=FACTOR, but got 'scale:mm'"),
        ("scale=2", "must name them"),
        ("graphs=few", "must be written graphs"),
        ("half:mm=2", "must be written half"),
        ("streams=two", "must be written streams=K"),
    ],
)
def test_a_what_if_that_is_written_wrongly_is_refused(trace: KernelGraph, text: str, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        [change(trace) for change in parse_what_if(text)]


@pytest.mark.parametrize("name", ["H100", "h100", "NVIDIA_H100"])
def test_of_several_devices_of_a_name_the_one_that_was_measured_is_meant(name: str) -> None:
    assert parse_what_if(f"device={name}") == parse_what_if("device=NVIDIA H100 80GB HBM3")
    assert parse_what_if("device=H100 PCIe") != parse_what_if(f"device={name}")
    with pytest.raises(CostModelError, match="It may be"):
        parse_what_if("device=A100")
