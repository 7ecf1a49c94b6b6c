"""Files of other profilers: Nsight Systems, those of ROCm, and XLA's; whole, and damaged."""

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import profiler_files as files
import pytest

from costmodel import CostModelError
from costmodel.planner import plan, replay
from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._scale import scale
from costmodel.reading import detect

pytestmark = pytest.mark.white_box

WITH_HOST = {
    "report.sqlite": files.write_nsys,
    "trace.rpd": files.write_rpd,
    "results.db": files.write_rocpd,
    "host.trace.json.gz": files.write_xla,
}
TABLES = {"1_kernel_trace.csv": files.write_rocprofv3, "results.csv": files.write_rocprof}
Write = Callable[[Path], Path]


@pytest.mark.parametrize(("name", "write"), WITH_HOST.items())
def test_what_a_host_launched_and_waited_for_is_read(tmp_path: Path, name: str, write: Write) -> None:
    recorded = read_kineto(write(tmp_path / name))
    graph, edges = recorded.graph, recorded.graph.dependencies
    assert recorded.inspection.clean, recorded.inspection.sentences()
    assert [graph.name(i) for i in np.flatnonzero(graph.of_kind(TaskKind.KERNEL))] == ["gemm_a", "gemm_b"]
    assert graph.durations_s[graph.on_device] == pytest.approx([50e-6, 30e-6, 8e-6], abs=1e-9)
    assert (edges.kinds == DependencyKind.LAUNCH).sum() == 3
    assert recorded.makespan_s == pytest.approx(100e-6, abs=1e-9)
    assert replay(graph).makespan_s == pytest.approx(100e-6, abs=1e-9)
    faster = replay(scale(graph, "gemm_a", 0.1)).makespan_s  # gemm_b waits for its launch then
    assert faster == pytest.approx(57.25e-6, abs=1e-9)


@pytest.mark.parametrize("name", WITH_HOST)
def test_a_step_of_it_can_be_named(tmp_path: Path, name: str) -> None:
    path = WITH_HOST[name](tmp_path / name)
    assert read_kineto(path, "step").makespan_s == pytest.approx(101e-6)


@pytest.mark.parametrize(("name", "write"), TABLES.items())
def test_a_table_of_rocm_is_read(tmp_path: Path, name: str, write: Write) -> None:
    """Sizes of grids are work-items there."""
    graph = plan(write(tmp_path / name)).before.graph
    assert graph.names == ("gemm_a", "gemm_b")
    assert graph.blocks.tolist() == [304, 304]
    assert graph.block_warps.tolist() == [4, 4]
    assert replay(graph).makespan_s == pytest.approx(80.5e-6)


def test_launches_and_their_gpu_are_read(tmp_path: Path) -> None:
    of_nsys = read_kineto(files.write_nsys(tmp_path / "a.sqlite")).graph
    assert of_nsys.device is not None
    assert (of_nsys.device.name, of_nsys.device.sms) == ("NVIDIA H100 80GB HBM3", 132)
    of_rocpd = read_kineto(files.write_rocpd(tmp_path / "b.db")).graph
    of_xla = read_kineto(files.write_xla(tmp_path / "c.trace.json.gz")).graph
    for graph, blocks, warps in ((of_nsys, 264, 4), (of_rocpd, 304, 4), (of_xla, 264, 4)):
        kernels = graph.of_kind(TaskKind.KERNEL)
        assert set(graph.blocks[kernels]) == {blocks}
        assert set(graph.block_warps[kernels]) == {warps}


@pytest.mark.parametrize(
    ("name", "write", "key"),
    [
        *((name, write, "profiler-database") for name, write in list(WITH_HOST.items())[:3]),
        ("host.trace.json.gz", files.write_xla, "chrome-trace"),
        *((name, write, "rocprof") for name, write in TABLES.items()),
    ],
)
def test_a_file_is_known_for_what_it_is(tmp_path: Path, name: str, write: Write, key: str) -> None:
    found = detect(write(tmp_path / name))
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize("name", list(WITH_HOST)[:3])
def test_a_damaged_database_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    """Wherever its bytes are lost: it is read, or refused."""
    whole = WITH_HOST[name](tmp_path / name).read_bytes()
    path = tmp_path / "damaged.db"
    for at in range(100, len(whole), len(whole) // 23):
        path.write_bytes(whole[:at] + b"\xff" * 64 + whole[at + 64 :])
        with suppress(CostModelError):
            plan(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CostModelError, match=r"damaged\.db"):
        plan(path)


@pytest.mark.parametrize("name", ["report.sqlite", "trace.rpd", "results.db"])
def test_a_database_whose_end_is_missing_is_refused(tmp_path: Path, name: str) -> None:
    """SQLite reads a last page that is not all there as if nothing were in it."""
    path = WITH_HOST[name](tmp_path / name)
    whole = path.read_bytes()
    for lost in (1, 700, len(whole) - 20):
        path.write_bytes(whole[:-lost])
        with pytest.raises(CostModelError, match="its end is missing"):
            plan(path)


@pytest.mark.parametrize(
    ("name", "write"), [*WITH_HOST.items(), ("kernels_kernel_trace.csv", files.write_rocprofv3)]
)
def test_a_folder_may_have_ranks_of_any_profiler(tmp_path: Path, name: str, write: Write) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        write(tmp_path / f"rank{rank}" / name).rename(tmp_path / f"{rank}_{name}")
    (tmp_path / "notes.txt").write_text("of two nodes")
    ranks = {each.rank for each in plan(tmp_path).before.graph.resources}
    assert ranks == {0, 1}


def test_values_of_any_type_are_counted(tmp_path: Path) -> None:
    path = files.write_nsys(tmp_path / "report.sqlite")
    connection = sqlite3.connect(path)
    connection.execute(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon', gridX = x'00ff' WHERE correlationId = 2"
    )
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = 'none', nameId = NULL")
    connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    connection.commit()
    connection.close()
    recorded = read_kineto(path)
    assert recorded.inspection.counts["unreadable_time"] == 1
    assert [recorded.graph.name(i) for i in np.flatnonzero(recorded.graph.of_kind(TaskKind.KERNEL))] == [
        "gemm_a"
    ]


def test_names_of_xla_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    whole = gzip.decompress(files.write_xla(tmp_path / "a.json.gz").read_bytes())
    path = tmp_path / "b.json"
    path.write_bytes(whole.replace(b"occ_pct", b"occ\xff\xfe").replace(b'"python"', b'"p\xb2thon"'))
    assert read_kineto(path).makespan_s == pytest.approx(100e-6, abs=1e-9)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = files.write_tables(tmp_path / "study.db", {"trials": [{"id": 1}]})
    with pytest.raises(CostModelError, match=r"must have a table of CUPTI_ACTIVITY_KIND_KERNEL, .*study\.db"):
        plan(path)


LAUNCHES = """API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name
1000,2000,3000,7000,10000,50000,59000,77,5,0,cudaLaunchKernel,264    1    1,128    1    1,gemm_a
4000,2000,6000,54500,60500,30000,86500,77,5,0,cudaLaunchKernel,264    1    1,128    1    1,gemm_b
"""  # noqa: E501


def test_a_table_of_launches_of_nsys_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cuda_kern_exec_trace.csv"
    path.write_text(LAUNCHES)
    recorded = read_kineto(path)
    assert recorded.inspection.clean
    assert (recorded.graph.dependencies.kinds == DependencyKind.LAUNCH).sum() == 2
    assert recorded.graph.blocks[recorded.graph.on_device].tolist() == [264, 264]
    assert recorded.makespan_s == pytest.approx(89.5e-6)


def test_a_table_of_ranges_says_what_to_export(tmp_path: Path) -> None:
    path = tmp_path / "nvtx_pushpop_trace.csv"
    path.write_text("Start (ns),End (ns),Duration (ns),Name,PID,TID\n1,2,1,step,77,5\n")
    with pytest.raises(CostModelError, match=r"ranges of NVTX alone\. Export `nsys stats --report cuda_gpu"):
        plan(path)


NSYS = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1000000,52000,11,132,2,1,128,1,1,168,0.000,0.051,,,,,NVIDIA H100 80GB HBM3 (0),1,,7,ampere_sgemm_128x64_tn
1060000,8000,12,,,,,,,,,,0.524,65.5,Device,Pageable,NVIDIA H100 80GB HBM3 (0),1,,7,[CUDA memcpy Device-to-Host]
1070000,10000,13,264,1,1,256,1,1,32,0.000,0.000,,,,,NVIDIA H100 80GB HBM3 (0),1,,13,"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char *, 3>>(int, T2, T3)"
1072000,1000,14,,,,,,,,,,0.000,0,Device,,NVIDIA H100 80GB HBM3 (0),1,,13,[CUDA memset]
"""  # noqa: E501


@pytest.mark.parametrize("before", ["", "Processing [report.sqlite] with [cuda_gpu_trace.py]...\n\n"])
def test_a_table_of_nsys_is_read(tmp_path: Path, before: str) -> None:
    path = tmp_path / "cuda_gpu_trace.csv"
    path.write_text(before + NSYS)
    found = plan(path, "sms=66")
    graph = found.before.graph
    assert graph.kinds.tolist() == [TaskKind.KERNEL, TaskKind.COPY, TaskKind.KERNEL, TaskKind.MEMSET]
    np.testing.assert_allclose(graph.durations_s * 1e6, [52, 8, 2, 1])
    assert (graph.blocks[0], graph.block_warps[0], graph.sms[0]) == (264, 4, 132)
    assert graph.device is not None
    assert graph.device.name == "NVIDIA H100 80GB HBM3"
    assert found.inspection.counts == {"runs_inside_another": 1}
    assert found.before.makespan_s == pytest.approx(73e-6)


def test_a_table_of_nsys_that_is_damaged_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "cuda_gpu_trace.csv"
    path.write_text(NSYS + " " * 200_000)
    with pytest.raises(
        CostModelError,
        match=r"must be a table of `nsys stats`, but: field larger than.*\. Export it again\.$",
    ):
        plan(path)
    path.write_text(NSYS.partition("\n")[0])
    with pytest.raises(CostModelError, match="must have a row for each kernel, but has no row"):
        plan(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report.nsys-rep", "nsys export --type sqlite"),
        ("host.xplane.pb", r"\*\.trace\.json\.gz that JAX wrote"),
    ],
)
def test_a_file_that_is_to_be_exported_first_is_told_how(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)))
    with pytest.raises(CostModelError, match=message):
        plan(tmp_path / name)


def test_what_plan_cannot_read_is_not_sent_back_to_plan(tmp_path: Path) -> None:
    table, database = tmp_path / "1_kernel_trace.csv", files.write_nsys(tmp_path / "report.sqlite")
    table.write_text(files.write_rocprofv3(table).read_text().splitlines()[0] + "\n")
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])
    for file in (table, database):
        with pytest.raises(CostModelError, match=r"Export it again\.$"):
            plan(file)
