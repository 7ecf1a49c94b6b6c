import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.features import extract
from costmodel.features._extract import COLUMNS
from costmodel.kernels.metaschedule._tiles import (
    count_contiguous,
    operand_loads,
    operand_loops,
    unfold_tensor_tile,
)
from costmodel.records import Candidate, Config, Device, Platform, Workload, find_device
from costmodel.records._candidate import KernelLaunch
from costmodel.records._operators import OPERATORS
from costmodel.records._peak_rates import peak_rates
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape, landscape_platform

pytestmark = pytest.mark.white_box

MATMUL = Workload.parse("matmul-m128-n256-k64")


def columns_of(candidate: Candidate, platform: Platform) -> dict[str, float]:
    table = extract([candidate], [platform])
    return {column.name: float(value) for column, value in zip(table.columns, table.values[0], strict=True)}


def candidate_of(*launches: KernelLaunch, workload: Workload = MATMUL, **decisions) -> Candidate:
    named = {name.replace("__", "."): value for name, value in decisions.items()}
    return Candidate(workload, "test", Config(named), launches)


def launch_of(blocks: int = 100, threads: int = 256, **facts: int) -> KernelLaunch:
    return KernelLaunch(blocks, threads, **({"flops": MATMUL.flops} | facts))


def columns_of_tiles(tiles) -> list[np.ndarray]:
    """Each tile as a batch of one."""
    return [np.array([tile], dtype=np.float64) for tile in tiles]


def families_of(row: dict[str, float]) -> list[str]:
    columns = [column.name for column in COLUMNS if column.group == "workload"]
    return [name.removeprefix("is_") for name in columns if name.startswith("is_") and row[name]]


def test_rows_align_with_pairs_in_any_order() -> None:
    data = gpu_landscape(
        workloads=["matmul-m64-n64-k64", "matmul-m128-n64-k64"], configs_per_workload=3, sms=(8, 132)
    )
    pairs = [(c, p) for p in data.platforms for c in data.candidates]
    forward = extract(*zip(*pairs, strict=True)).values
    backward = extract(*zip(*pairs[::-1], strict=True)).values
    alone = np.vstack([extract([c], [p]).values for c, p in pairs])
    np.testing.assert_array_equal(forward, alone)
    np.testing.assert_array_equal(forward, backward[::-1])


@pytest.mark.parametrize(
    "name", ["Instinct MI300X", "Instinct MI250X", "Radeon PRO W7800", "Radeon PRO W6600"]
)
def test_an_amd_gpu_has_every_column_that_an_a100_has(name: str) -> None:
    """Compute units, wave size, local memory and matrix cores are known of both vendors' GPUs."""
    workload = Workload.parse("matmul-m512-n512-k512-float16")
    candidate = candidate_of(
        launch_of(flops=workload.flops, tensor_flops=workload.flops, shared_bytes=4096), workload=workload
    )
    theirs, ours = (
        columns_of(candidate, Platform(device, "whole", device.sms, device.sms))
        for device in map(find_device, (f"AMD {name}", "NVIDIA A100-SXM4-80GB"))
    )
    assert {each for each in ours if math.isnan(theirs[each])} == {x for x in ours if math.isnan(ours[x])}


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="1 candidates and 0 platforms"):
        extract([candidate_of()], [])


def test_no_rows_give_an_empty_table() -> None:
    table = extract([], [])
    assert table.values.shape == (0, len(table.columns))


def test_names_are_unique_and_task_columns_constant_within_tasks() -> None:
    data = gpu_landscape(workloads=["matmul-m64-n64-k64"], configs_per_workload=5, sms=(8, 132))
    table = extract([*data.candidates, *data.candidates], [p for p in data.platforms for _ in range(5)])
    assert len({column.name for column in table.columns}) == len(table.columns)
    first = table.values[:5][:, table.indices("workload", "platform")]
    np.testing.assert_array_equal(first, np.broadcast_to(first[0], first.shape))


@pytest.mark.parametrize(
    ("name", "reduction", "results"),
    [
        ("matmul-m4-n8-k16", 16, 32),
        ("batch_matmul-b2-m4-n8-k16", 16, 64),
        ("conv2d-n1-c8-h6-w6-o4-k3-s1", 72, 144),
        ("depthwise_conv2d-n1-c8-h6-w6-k3-s2", 9, 72),
    ],
)
def test_workload_columns(name, reduction, results) -> None:
    workload = Workload.parse(name)
    row = columns_of(candidate_of(workload=workload), landscape_platform(132))
    assert 2 ** row["log2_reduction"] == pytest.approx(reduction)
    assert 2 ** row["log2_results"] == pytest.approx(results)
    assert 2 ** row["log2_flops"] == pytest.approx(workload.flops)
    assert 2 ** row["log2_intensity"] == pytest.approx(workload.flops / workload.min_bytes)
    assert families_of(row) == [workload.kind]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("matmul_bias_gelu-m4-n8-k16", "fused_matmul"),
        ("batch_matmul_add-b2-m4-n8-k16", "batch_matmul"),
        ("conv2d_nhwc_bias_relu-n1-c8-h6-w6-o4-k3-s1-float16", "conv2d"),
        ("depthwise_conv2d_bias_relu6-n1-c8-h6-w6-k3-s2", "depthwise_conv2d"),
        ("rms_norm-m4-n8", "layer_norm"),
    ],
)
def test_kinds_share_the_column_of_their_family(name, family) -> None:
    row = columns_of(candidate_of(workload=Workload.parse(name)), landscape_platform(132))
    assert families_of(row) == [family]


def test_every_operator_kind_has_columns() -> None:
    for kind, operator in OPERATORS.items():
        workload = Workload(kind, dict.fromkeys(operator.dims, 8))
        assert math.isfinite(
            columns_of(candidate_of(workload=workload), landscape_platform(8))["log2_results"]
        )


def test_roofline_is_the_slower_of_compute_and_memory() -> None:
    whole, part = (columns_of(candidate_of(), landscape_platform(sms)) for sms in (132, 8))
    peak = 2 * 128 * 1.98e9
    assert 2 ** whole["log2_roofline_s"] == pytest.approx(
        max(MATMUL.flops / (132 * peak), MATMUL.min_bytes / 3352e9)
    )
    assert 2 ** part["log2_roofline_s"] == pytest.approx(MATMUL.flops / (8 * peak))
    assert part["log2_compute_share_of_roofline"] == 0.0
    assert whole["log2_compute_share_of_roofline"] < 0.0


def test_config_columns_aggregate_tiles_of_any_space() -> None:
    candidate = candidate_of(
        sketch=1,
        tile__C__i=(2, 1, 16, 4, 1),
        tile__C__j=(4, 2, 8, 1, 4),
        tile__C__k=(16, 2, 2),
        cooperative_fetch__A=4,
        cooperative_fetch__B=2,
        unroll_explicit__C=63,
        something_else="yes",
    )
    row = columns_of(candidate, landscape_platform(132))
    assert [2 ** row[f"log2_spatial_{level}"] for level in range(5)] == [8, 2, 128, 4, 4]
    assert [2 ** row[f"log2_reduction_{level}"] for level in range(3)] == [16, 2, 2]
    assert 2 ** row["log2_thread_tile"] == 2 * 4 * 4
    assert 2 ** row["log2_block_tile"] == 2 * 128 * 4 * 4
    assert [2 ** row[f"log2_last_{part}"] for part in ("block_tile", "threads", "innermost")] == [64, 8, 4]
    assert (row["log2_unroll"], row["max_vector_width"]) == (6.0, 4.0)


def test_columns_of_what_a_thread_repeats() -> None:
    row = columns_of(
        candidate_of(
            tile__C__i=(2, 1, 16, 4, 1),
            tile__C__j=(4, 2, 8, 1, 4),
            tile__C__k=(16, 2, 2),
            unroll_explicit__C=511,
        ),
        landscape_platform(132),
    )
    # A thread computes 4 x 8 results: 4 + 8 operands for 32 multiply-adds, 4 times between two stagings.
    assert 2 ** row["log2_loads_per_fma"] == pytest.approx((4 + 8) / 32)
    assert 2 ** row["log2_body"] == 32 * 4
    assert 2 ** row["log2_unroll_over_body"] == 512 / 128


@pytest.mark.parametrize(
    ("workload", "tiles", "loads"),
    [
        # Sides of a thread's box: 2, 3, 5 (and 7), whatever the level they come from.
        (
            "batch_matmul-b2-m3-n5-k7",
            ((1, 2, 1, 1, 1), (1, 3, 1, 1, 1), (1, 1, 1, 5, 1)),
            (2 * 3 + 2 * 5) / 30,
        ),
        (
            "conv2d-n2-c8-h7-w7-o3-k1-s1",
            ((1, 1, 1, 1, 2), (1, 3, 9, 1, 1), (1, 1, 1, 5, 1), (8, 7, 1, 1, 1)),
            (70 + 3) / 210,
        ),
        (
            "depthwise_conv2d-n2-c3-h7-w7-k1-s1",
            ((1, 1, 1, 1, 2), (1, 3, 1, 1, 1), (1, 1, 1, 5, 1), (1, 7, 1, 1, 1)),
            1 + 3 / 210,
        ),
    ],
)
def test_operands_are_loaded_once_for_all_results_that_share_them(workload, tiles, loads) -> None:
    operands = operand_loops(Workload.parse(workload))
    assert operand_loads(operands, columns_of_tiles(tiles)) == pytest.approx(loads)


def test_operand_loads_are_unknown_without_the_operators_loops() -> None:
    for name in ("softmax-m4-n4", "conv2d-n2-c8-h7-w7-o3-k1-s1"):
        operands = operand_loops(Workload.parse(name))
        assert math.isnan(operand_loads(operands, columns_of_tiles([(1, 1, 1, 1, 1)])))


@pytest.mark.parametrize(
    ("tiles", "run"),
    [
        (((16, 2, 2),), 4),
        (((4, 2, 8), (1, 3, 1), (1, 1, 3)), 16 * 9),
        (((4, 2, 8), (3, 1, 1), (1, 1, 3)), 3),
    ],
)
def test_runs_go_on_while_loops_are_covered_in_full(tiles, run) -> None:
    assert count_contiguous(columns_of_tiles(tiles)) == run


def test_config_columns_of_cpu_tiles_and_of_no_tiles() -> None:
    cpu = columns_of(candidate_of(tile__C__i=(2, 4, 8, 16), tile__C__k=(4, 2)), landscape_platform(132))
    assert [cpu[f"log2_spatial_{level}"] for level in range(4)] == [1, 2, 3, 4]
    assert math.isnan(cpu["log2_spatial_4"])
    assert math.isnan(cpu["log2_reduction_2"])
    assert cpu["log2_thread_tile"] == 2 + 4
    bare = columns_of(candidate_of(split__S=32), landscape_platform(132))
    assert all(math.isnan(bare[name]) for name in ("log2_spatial_0", "log2_thread_tile", "log2_unroll"))


def test_launch_columns_are_missing_where_neither_decisions_nor_lowering_tell_and_others_are_not() -> None:
    table = extract([candidate_of(tile__C__i=(1, 1, 32, 2, 2))], [landscape_platform(8)])
    assert np.isnan(table.values[0, table.indices("launch")[1:]]).sum() > 20
    assert not np.isnan(table.values[0, table.indices("workload", "platform")]).any()


@given(
    blocks=st.integers(1, 5000),
    threads=st.sampled_from([32, 96, 256, 1024]),
    shared=st.integers(0, 96 * 1024),
    local=st.integers(0, 2000),
    sms=st.sampled_from([8, 24, 132]),
)
def test_waves_follow_the_occupancy_limits(blocks, threads, shared, local, sms) -> None:
    launch = launch_of(blocks, threads, shared_bytes=shared, local_bytes=local)
    row = columns_of(candidate_of(launch), landscape_platform(sms))
    per_thread = min(255.0, 24 + (1.2 * local + 0.4 * shared / threads) / 4)
    registers = 8 * math.ceil(per_thread / 8) * threads
    fitting = min(32, 2048 // threads, 228 * 1024 // (shared + 1024), 65536 // registers)
    per_sm = max(1, fitting)
    waves = -(-blocks // (per_sm * sms))
    assert 2 ** row["log2_blocks_per_sm"] == pytest.approx(per_sm)
    assert 2 ** row["log2_waves"] == pytest.approx(waves)
    assert row["idle_share"] == pytest.approx(1 - blocks / (per_sm * sms) / waves)
    assert row["occupancy"] == pytest.approx(min(1, per_sm * threads / 2048))
    assert row["active_sm_share"] == pytest.approx(min(1, blocks / sms))
    assert 2 ** row["log2_imbalance"] == pytest.approx(-(-blocks // sms) * sms / blocks)


def test_compute_time_over_roofline_is_the_imbalance_when_compute_bound() -> None:
    row = columns_of(candidate_of(launch_of(blocks=9)), landscape_platform(8))
    # Two of nine blocks run on one SM, and the roofline spreads them over eight.
    assert 2 ** row["log2_compute_over_roofline"] == pytest.approx(2 * 8 / 9)


def test_times_count_idle_lanes_idle_schedulers_and_loads_in_flight() -> None:
    clock, sms = 1.98e9, 8
    tiles = {"tile__C__i": (8, 1, 4, 4, 1), "tile__C__j": (32, 1, 4, 2, 1), "tile__C__k": (8, 2, 4)}
    # 16 of 32 lanes and 1 of 4 schedulers work; 512 bytes of operands are on the way at once.
    launch = launch_of(8, 16, shared_bytes=512, global_load_bytes=MATMUL.min_bytes)
    row = columns_of(candidate_of(launch, **tiles), landscape_platform(sms))
    assert (row["lane_share"], row["log2_busy_warps_per_sm"], row["log2_waves"]) == (0.5, 0.0, 0.0)
    roofline_s = 2 ** row["log2_roofline_s"]
    seconds = {
        "compute": MATMUL.flops / (sms * 256 * clock) * 8,
        "operands": MATMUL.flops / 2 * (4 + 2) / (4 * 2) / (sms * 32 * clock) * 8,
        "l2": MATMUL.min_bytes / sms / (512 / 800) / clock,
        "latency": 8 * 800 / clock,
    }
    for name, expected in seconds.items():
        assert 2 ** row[f"log2_{name}_over_roofline"] * roofline_s == pytest.approx(expected)
    total = sum(seconds.values()) + MATMUL.min_bytes / 3352e9
    assert 2 ** row["log2_analytic_over_roofline"] * roofline_s == pytest.approx(total, rel=1e-4)


def test_several_kernels_add_up_and_the_longest_speaks() -> None:
    short = launch_of(7, 64, flops=MATMUL.flops // 128, global_load_bytes=100)
    long = launch_of(500, 128, flops=MATMUL.flops, global_load_bytes=3900)
    one = columns_of(candidate_of(long), landscape_platform(132))
    for launches in ((short, long), (long, short)):
        row = columns_of(candidate_of(*launches), landscape_platform(132))
        assert row["launches"] == 2
        assert row["log2_blocks"] == one["log2_blocks"]
        assert 2 ** row["log2_extra_flops"] == pytest.approx(1 + 1 / 128)
        assert 2 ** row["log2_load_redundancy"] == pytest.approx(4000 / MATMUL.min_bytes)
        assert row["log2_analytic_over_roofline"] > one["log2_analytic_over_roofline"]


def test_unknown_sizes_of_a_device_limit_nothing() -> None:
    cpu = Device("cpu", "cpu", "x86", sms=4, clock_mhz=3000.0, fp32_lanes_per_sm=16)
    row = columns_of(candidate_of(launch_of(64, 1)), Platform(cpu, "threads", 2, 2))
    assert row["occupancy"] == 1.0
    assert row["log2_waves"] == 5.0
    assert math.isnan(row["log2_l2"])
    assert 2 ** row["log2_roofline_s"] == pytest.approx(MATMUL.flops / (2 * 2 * 16 * 3e9))


@pytest.mark.parametrize(
    ("device", "lane_share"), [("RTX 3090", 1.0), ("AMD Instinct MI250X", 0.5), ("W7800", 1.0)]
)
def test_half_a_wave_of_cdna_is_a_whole_warp_elsewhere(device: str, lane_share: float) -> None:
    gpu = find_device(device)
    row = columns_of(candidate_of(launch_of(64, 32)), Platform(gpu, "whole", gpu.sms, gpu.sms))
    assert 2 ** row["log2_peak_flops"] == pytest.approx(1e12 * peak_rates(gpu).fp32_tflops)
    assert row["lane_share"] == lane_share


def test_landscape_device_is_described_completely() -> None:
    tiled = candidate_of(launch_of(), tile__C__i=(1, 1, 1, 1, 1), tile__C__j=(1, 1, 1, 1, 1))
    table = extract([tiled], [Platform(LANDSCAPE_DEVICE, "green_context", 8, 8)])
    assert not np.isnan(table.values[0, table.indices("platform", "launch")]).any()


TENSOR_DEVICE = msgspec.structs.replace(LANDSCAPE_DEVICE, tensor_flops_per_sm_clock=4096)
HALF = Workload.parse("matmul-m128-n256-k64-float16")


def tensor_candidate() -> Candidate:
    """2 x 2 blocks of 2 x 4 warps, each 2 x 1 fragments of 16 x 16, in four steps of one fragment."""
    tiles = {"tensor_tile__C__m": (1, 2, 2, 2, 1), "tensor_tile__C__n": (2, 1, 4, 1, 2)}
    launch = launch_of(4, 256, flops=HALF.flops, tensor_flops=HALF.flops)
    return candidate_of(launch, workload=HALF, tensor_tile__C__k=(4, 1, 1), **tiles)


def test_tensor_tiles_count_warps_in_the_place_of_threads() -> None:
    row = columns_of(tensor_candidate(), landscape_platform(132))
    assert [2 ** row[f"log2_spatial_{level}"] for level in range(5)] == [4, 1, 8, 2, 2 * 16 * 16]
    assert [2 ** row[f"log2_reduction_{level}"] for level in range(3)] == [4, 1, 16]
    assert 2 ** row["log2_thread_tile"] == pytest.approx(32 * 32)
    assert 2 ** row["log2_block_tile"] == pytest.approx(64 * 128)
    assert 2 ** row["log2_loads_per_fma"] == pytest.approx((32 + 32) / (32 * 32))
    np.testing.assert_array_equal(unfold_tensor_tile(np.array([[1.0, 2, 2, 2, 1]])), [[2, 1, 2, 2, 16]])


def test_float16_is_bound_by_tensor_cores_where_they_are_known() -> None:
    without = landscape_platform(132)
    with_them = msgspec.structs.replace(without, device=TENSOR_DEVICE)
    plain, tensor = (columns_of(tensor_candidate(), platform) for platform in (without, with_them))
    assert 2 ** (tensor["log2_peak_flops"] - plain["log2_peak_flops"]) == pytest.approx(4096 / (2 * 128))
    single = [columns_of(candidate_of(launch_of()), p)["log2_peak_flops"] for p in (without, with_them)]
    assert single[0] == single[1]


def test_tensor_cores_do_their_part_of_the_arithmetic() -> None:
    platform = msgspec.structs.replace(landscape_platform(132), device=TENSOR_DEVICE)
    half = launch_of(4, 256, flops=HALF.flops, tensor_flops=HALF.flops // 2)
    none, some, all_ = (
        columns_of(candidate_of(launch, workload=HALF), platform)["log2_compute_over_roofline"]
        for launch in (launch_of(4, 256, flops=HALF.flops), half, *tensor_candidate().launches)
    )
    assert 2 ** (none - all_) == pytest.approx(4096 / (2 * 128))
    assert 2 ** (some - all_) == pytest.approx((1 + 4096 / (2 * 128)) / 2)


@pytest.mark.parametrize("epilogue", ["", "_bias_relu"])
def test_layouts_and_epilogues_share_the_loops_of_their_anchor(epilogue: str) -> None:
    tiles = {f"tile__y__{loop}": (1, 1, 1, 1, size) for loop, size in zip("abcd", (1, 2, 3, 4), strict=True)}
    for anchor, loads in (("conv2d", (1 * 3 * 4 + 2) / 24), ("conv2d_nhwc", (1 * 2 * 3 + 4) / 24)):
        workload = Workload.parse(f"{anchor}{epilogue}-n1-c8-h6-w6-o4-k3-s1")
        row = columns_of(candidate_of(workload=workload, **tiles), landscape_platform(132))
        assert 2 ** row["log2_loads_per_fma"] == pytest.approx(loads)
