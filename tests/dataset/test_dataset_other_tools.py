"""Files that other tools write, as they come: what is read of them, and what is said of the rest."""

import gzip
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from costmodel.dataset import CardHeader, build_dataset, describe, examine, load_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._source import FileContents
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, Workload

pytestmark = pytest.mark.white_box

FILES = Path(__file__).parent / "other_tools"


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    path = tmp_path / "platform.toml"
    path.write_text('device = "NVIDIA H100 80GB HBM3"\n')
    return path


def read(name: str, platform: Path | None = None, **options: Any) -> FileContents:
    return read_source(FILES / name, ReadOptions(platform, **options))


def in_order(source: FileContents) -> Sequence[Measurement]:
    return sorted(
        source.measurements, key=lambda each: (each.latency_s, str(each.candidate.config.decisions))
    )


def decisions(measurement: Measurement) -> dict[str, Any]:
    return measurement.candidate.config.decisions


def test_a_log_of_autotvm() -> None:
    source = read("autotvm.log")
    good, bad = in_order(source)
    assert not source.rejects
    assert good.candidate.workload.kind.startswith("autotvm.conv2d_nchw_cuda.")
    assert list(good.candidate.workload.dims.values()) == [1, 64, 56, 56, 64, 64, 3, 3, *[1] * 8]
    assert good.candidate.workload == bad.candidate.workload
    assert decisions(good) == {
        "tile_f": (2, 16, 1),
        "tile_y": (1, 1, 2),
        "tile_x": (1, 14, 1),
        "tile_rc": (4,),
        "reorder": "0,2,1",
        "ann_spatial": "unroll,vec",
        "auto_unroll_max_step": 512,
        "unroll_explicit": 1,
    }
    assert good.latencies_s == (0.000104833, 0.000105001)
    assert good.platform.name == "Tesla T4/whole/40"
    assert good.measured_at == "2020-06-11T23:50:43.010000+00:00"
    assert (bad.outcome, bad.error) == (Outcome.LAUNCH_ERROR, "RUNTIME_DEVICE")


def test_a_cache_of_triton(platform: Path) -> None:
    source = read("_attn_fwd.autotune.json", platform)
    best, second, failed = in_order(source)
    assert best.candidate.workload.kind.startswith("triton._attn_fwd.")
    assert best.candidate.workload.dims == {"a": 4096, "b": 512}
    assert decisions(best) == {
        **{"BLOCK_M": 64, "BLOCK_N": 64, "EVEN_K": 1},
        **{"num_warps": 4, "num_ctas": 1, "num_stages": 3},
    }
    assert (best.latencies_s, second.latencies_s) == ((pytest.approx(21.5e-6),), (pytest.approx(31.5e-6),))
    assert (failed.outcome, best.l2_policy) == (Outcome.COMPILE_ERROR, "flushed")
    assert best.platform.device.name == "NVIDIA H100 80GB HBM3"
    assert any("median" in remark for remark in source.repairs)


def test_caches_of_triton_for_other_types_are_other_workloads(tmp_path: Path, platform: Path) -> None:
    content = (FILES / "_attn_fwd.autotune.json").read_text()
    found = []
    for dtype in ("torch.float16", "torch.float32"):
        path = tmp_path / dtype / "_attn_fwd.autotune.json"
        path.parent.mkdir()
        path.write_text(content.replace("torch.float16", dtype))
        found.append(read_source(path, ReadOptions(platform)).measurements.workloads)
    assert found[0].isdisjoint(found[1])


def test_sizes_that_no_product_has_are_rejected(platform: Path, tmp_path: Path) -> None:
    path = tmp_path / "tunableop_results0.csv"
    line = f"GemmTunableOp_float_NT,nt_{'9' * 5000}_4096_64,Default,0.1"
    path.write_text(f"Validator,PT_VERSION,2.6.0\n{line}\n")
    (reject,) = read_source(path, ReadOptions(platform)).rejects
    assert "must be of a matrix product" in reject.reason


def test_results_of_tunable_op(platform: Path) -> None:
    platform.write_text('device = "AMD Instinct MI250X"\n')
    source = read("tunableop_results0.csv", platform)
    assert not source.rejects
    batched, small, large = in_order(source)
    assert large.candidate.workload.kind.startswith("tunable_op.GemmTunableOp_float_NT.")
    assert large.candidate.workload.dims == {"m": 25088, "n": 4096, "k": 64}
    assert batched.candidate.workload.dims == {"m": 128, "n": 128, "k": 64, "b": 32}
    assert decisions(large) == {"solution": "Gemm_Rocblas_1216"}
    assert large.latencies_s == (pytest.approx(1.262e-3),)
    assert small.platform.software["ROCM_VERSION"] == "6.2.0.0-66-8bea1f1"
    assert small.platform.device.kind == "hip"


def test_results_of_ktt() -> None:
    source = read("ktt.json", problem_size=(256, 256, 256))
    best, second, failed = in_order(source)
    assert best.candidate.workload.dims == {"x": 256, "y": 256, "z": 256}
    assert decisions(best) == {"INNER_UNROLL_FACTOR": 2, "USE_SOA": 1}
    assert (best.latencies_s, second.latencies_s) == ((pytest.approx(640e-6),), (pytest.approx(812.5e-6),))
    assert (failed.outcome, failed.error) == (Outcome.COMPILE_ERROR, "CompilationFailed")
    assert best.platform.name == "NVIDIA GeForce RTX 3090/whole/82"
    assert not source.assumptions
    assert any("size of their problem" in each for each in read("ktt.json").assumptions)


def test_a_report_of_ncu(platform: Path) -> None:
    source = read("ncu.csv", platform)
    assert not source.rejects
    best, second = in_order(source)
    assert best.latencies_s == (pytest.approx(1234567e-9), pytest.approx(1234000e-9))
    assert second.latencies_s == (pytest.approx(1500.25e-6),)
    assert best.candidate.workload == second.candidate.workload
    assert best.candidate.workload.kind.startswith("ncu.gemm.")
    assert decisions(best) == {
        **{"template.0": 128, "template.1": 64, "block_x": 256, "block_y": 1, "block_z": 1},
        **{"grid_x": 32, "grid_y": 32, "grid_z": 1},
    }
    assert any("size of its problem" in each for each in source.assumptions)


def test_a_raw_report_of_ncu_of_a_named_workload(platform: Path) -> None:
    named = Workload.parse("mine.saxpy-x1048576")
    source = read("ncu_raw.csv", platform, workloads=(named,))
    best, second = in_order(source)
    assert best.candidate.workload == second.candidate.workload == named
    assert (best.latencies_s, second.latencies_s) == ((pytest.approx(11.5e-6),), (pytest.approx(12.5e-6),))
    assert not source.assumptions


def test_a_report_of_ncu_without_times_says_how_to_get_them(tmp_path: Path, platform: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text(
        (FILES / "ncu.csv").read_text().replace("gpu__time_duration.sum", "sm__cycles_elapsed.max")
    )
    with pytest.raises(CostModelError, match=r"--metrics gpu__time_duration.sum"):
        read_source(path, ReadOptions(platform))


@pytest.mark.parametrize("name", ["cutlass_profiler.gemm.csv", "cutlass_profiler.txt"])
def test_a_table_of_cutlass_profiler(name: str, platform: Path) -> None:
    source = read(name, platform)
    assert not source.rejects
    best, second, *failed = in_order(source)
    workload = best.candidate.workload
    assert (workload.dims, workload.kind.startswith("cutlass.gemm.")) == (
        {"m": 4096, "n": 4096, "k": 1024, "b": 1},
        True,
    )
    assert {each.candidate.workload for each in (best, second, *failed)} == {workload}
    assert decisions(best)["cta_m"] == 256
    assert "cluster_m" not in decisions(best)
    assert decisions(best)["operation"] == "cutlass_tensorop_s16816gemm_f16_256x128_32x3_nt_align8"
    assert (best.latencies_s, second.latencies_s) == (
        (pytest.approx(0.213217e-3),),
        (pytest.approx(0.245e-3),),
    )
    assert {each.outcome for each in failed} == {Outcome.WRONG_RESULT, Outcome.INVALID_CONFIG}


def test_a_table_of_nvbench() -> None:
    source = read("nvbench.csv")
    assert not source.rejects
    best, second, double, skipped = in_order(source)
    assert best.candidate.workload.dims == {"a": 1048576}
    assert best.candidate.workload == second.candidate.workload != double.candidate.workload
    assert decisions(best) == {"BlockSize": 256}
    assert (best.latencies_s, best.l2_policy) == ((1.1345e-05,), "flushed")
    assert skipped.outcome is Outcome.INVALID_CONFIG
    assert best.platform.name == "NVIDIA GeForce RTX 3090/whole/82"


def test_what_is_taken_for_given_is_told() -> None:
    (finding,) = [each for each in examine([FILES / "nvbench.csv"]).findings if each.kind == "assumption"]
    assert finding.message.startswith(
        "Of the axes, Elements, T are taken to be of the problem, and BlockSize to"
    )


def test_a_printed_report_of_nvbench() -> None:
    source = read("nvbench.md")
    assert not source.rejects
    best, second = in_order(source)
    assert best.candidate.workload == second.candidate.workload
    assert best.candidate.workload.kind.startswith("nvbench.reported_copy.")
    assert (best.candidate.workload.dims, decisions(best)) == ({"a": 1048576}, {"BlockSize": 256})
    assert [*best.latencies_s, *second.latencies_s] == pytest.approx([11e-6, 12.345e-6])
    assert best.platform.name == "NVIDIA GeForce RTX 3090/whole/82"


def test_results_of_nvbench_in_json() -> None:
    source = read("nvbench.json")
    assert not source.rejects
    best, second, skipped = in_order(source)
    assert best.candidate.workload == second.candidate.workload
    assert (best.candidate.workload.dims, decisions(best)) == ({"a": 1048576}, {"BlockSize": 256})
    assert (best.latencies_s, skipped.error) == ((1.15e-05,), "too many threads")
    device = best.platform.device
    assert (device.architecture, device.sms, device.clock_mhz, device.bandwidth_gb_s) == (
        "sm_90",
        99,
        1500,
        2000,
    )


def test_files_of_other_tools_become_a_dataset(tmp_path: Path, platform: Path, header: CardHeader) -> None:
    files = sorted(set(FILES.iterdir()) - {FILES / "cutlass_profiler.txt"})  # which holds a table twice
    report = build_dataset(files, tmp_path / "dataset", header=header, options=ReadOptions(platform))
    assert (report.rejects, report.measurements) == ({}, 28)
    assert len(load_dataset(tmp_path / "dataset").to_records()) == 28


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("matmul:\n  block_m: [16, 32, 64]\n", "it looks like YAML. Write what it says as TOML or JSON"),
        (
            '[{"ph": "X", "cat": "Kernel", "name": "volta_sgemm"}]',
            r"trace of PyTorch's profiler. `costmodel plan",
        ),
        (
            '{"1": {"BLOCK_SIZE_M": 16, "num_warps": 4}}',
            "must have the name that vLLM and SGLang give",
        ),
        ("import triton\n\n\n@triton.jit\ndef kernel(x):\n    pass\n", "it looks like a program in Python"),
        ('[{"block": 16, "ms": 0.5}]', "JSON of another kind. Convert its rows to a table"),
        ("[0.5, 0.25]", "JSON of another kind. Convert its rows to a table"),
        ("a,b,ms\n1,2,0.5\n", "a table of another program. Give `--columns map.toml`"),
        (
            "no words of any format\n",
            "looks like none of these: a CSV file, a Parquet file, a cache of Kernel",
        ),
        ("<!DOCTYPE html><html></html>", "a web page. Download the file itself"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_cannot_be_read_is_told_by_what_it_looks_like(
    tmp_path: Path, content: str, message: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(content.encode()))
    with pytest.raises(CostModelError, match=message):
        read_source(path)


def test_tasks_of_one_config_are_told_and_left_out_of_averages(
    tmp_path: Path, platform: Path, header: CardHeader
) -> None:
    """TunableOp keeps the best solution only: nothing of it tells how good a choice is."""
    results = FILES / "tunableop_results0.csv"
    options = ReadOptions(platform)
    (finding,) = [each for each in examine([results], options).findings if each.kind == "best only"]
    assert (finding.count, finding.severity) == (3, "warning")
    assert "3 of 3 have one" in finding.message
    build_dataset([results], tmp_path / "dataset", header=header, options=options)
    found = describe(tmp_path / "dataset")
    assert [each.configs for each in found.tasks] == [1, 1, 1]
    assert all(math.isnan(each.near_best_share) and math.isnan(each.spread) for each in found.tasks)
    assert all(budget.tasks == 0 and math.isnan(budget.mean_gap) for budget in found.budgets)
    assert "tasks of one config, which no score counts" in (tmp_path / "dataset" / "README.md").read_text()
    assert not [each for each in examine([FILES / "ktt.json"]).findings if each.kind == "best only"]


MOE = "E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128, 128].json"


def test_best_configs_of_moe_kernels_are_choices_and_no_measurements(
    tmp_path: Path, header: CardHeader
) -> None:
    source = read(MOE)
    assert (len(source.measurements), source.rejects) == (0, [])
    small, large = source.choices
    assert small.candidate.workload.dims == {"e": 8, "n": 14336, "m": 1}
    assert large.candidate.workload.dims["m"] == 4096
    assert small.candidate.config.decisions["BLOCK_SIZE_M"] == 16
    assert small.platform.name == "NVIDIA H100 80GB HBM3/whole/132"
    assert small.platform.software["triton"] == "3.4.0"
    (finding,) = examine([FILES / MOE]).findings
    assert (finding.kind, finding.count) == ("best only", 2)
    with pytest.raises(CostModelError, match="2 are choices of somebody without one"):
        build_dataset([FILES / MOE], tmp_path / "dataset", header=header)


def test_what_a_program_prints_swallows_no_rows(tmp_path: Path, platform: Path) -> None:
    path = tmp_path / "report.csv"
    lines = (FILES / "ncu.csv").read_text().splitlines()
    path.write_text("\n".join(['"unclosed', *lines[:8], '"another, unclosed', *lines[8:]]))
    assert (
        in_order(read_source(path, ReadOptions(platform)))[0].latencies_s
        == in_order(read("ncu.csv", platform))[0].latencies_s
    )
