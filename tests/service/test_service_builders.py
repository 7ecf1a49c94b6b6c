"""Kernels that are built on workers of Dask which do not see this process's folders."""

from pathlib import Path
from typing import Any

import pytest

from costmodel.collector import CpuRunner, Engine, LocalEngine, Timing
from costmodel.collector._builders import Builders
from costmodel.kernels import CudaSource, sample_candidates
from costmodel.records import Candidate, Config, Outcome, Workload
from costmodel.service import DaskEngine

pytestmark = pytest.mark.white_box

TRANSPOSE = Workload.parse("cuda.transpose-m256-n256")
DECISIONS = {
    "tile_x": 32,
    "tile_y": 32,
    "load_width": 1,
    "rows_per_thread": 4,
    "padding": 1,
    "by_output": 0,
    "streaming": 0,
}


def transpose(**decisions: int) -> Candidate:
    return CudaSource().space(TRANSPOSE, "cuda").candidate(Config({**DECISIONS, **decisions}))


def builders(engine: Engine, folder: Path) -> Builders:
    return Builders(engine, (CudaSource(),), "cuda", "sm_90", folder, timeout_s=120)


def test_kernels_that_are_built_elsewhere_are_those_built_here(dask_cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    fits, fails = transpose(padding=2), transpose(tile_x=128, tile_y=128, rows_per_thread=16, load_width=1)
    with LocalEngine(1) as local, DaskEngine(dask_cluster) as dask:
        ours, theirs = builders(local, here), builders(dask, elsewhere)
        for candidate in (fits, fails):
            (built, reference), (expected, _) = theirs.built(candidate), ours.built(candidate)
            assert (built.outcome, built.kernel_hash, built.error) == (
                expected.outcome,
                expected.kernel_hash,
                expected.error,
            )
            assert reference is not None
        built, _ = theirs.built(fits)
    assert built.outcome is Outcome.OK
    assert built.library is not None
    assert built.library.parent == elsewhere / "sm_90"
    assert contents(elsewhere) == contents(here)


@pytest.mark.parametrize("shares_files", [True, False])
def test_an_artifact_that_is_not_what_was_built_is_not_run(
    dask_cluster: Any, tmp_path: Path, shares_files: bool
) -> None:
    pytest.importorskip("cuda.bindings")
    candidate = transpose()
    with DaskEngine(dask_cluster, shares_files=shares_files) as engine:
        building = builders(engine, tmp_path)
        built, _ = building.built(candidate)
        assert built.library is not None
        whole = built.library.read_bytes()
        built.library.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        damaged, _ = building.built(candidate)
        assert (damaged.outcome, damaged.library) == (Outcome.COMPILE_ERROR, None)
        assert f"sha256 {built.sha256[:12]}" in damaged.error
        again, _ = building.built(candidate)
    assert again.outcome is Outcome.OK
    assert built.library.read_bytes() == whole


def test_what_is_there_is_not_built_elsewhere_again(dask_cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    candidate = transpose()
    with DaskEngine(dask_cluster) as engine:
        first = builders(engine, tmp_path).built(candidate)
    closed = engine  # which takes no job any more
    assert builders(closed, tmp_path).built(candidate) == first


def test_a_build_that_is_not_done_is_cancelled_with_its_builders(dask_cluster: Any, tmp_path: Path) -> None:
    with DaskEngine(dask_cluster) as engine:
        engine.submit(divmod, 7, 2).result(600)
        unwanted = builders(engine, tmp_path)
        unwanted.prefetch([transpose(), transpose(padding=0)])
        done = []
        unwanted.when_built([transpose(), transpose(padding=0)], lambda: done.append(True))
        unwanted.close()
        assert done
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)


@pytest.mark.tvm
def test_a_runner_measures_what_others_built(dask_cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    workload = Workload.parse("matmul-m32-n32-k32")
    with DaskEngine(dask_cluster) as engine:
        timing = Timing(repeats=3, most_repeats=5)
        with CpuRunner(engine=engine, timing=timing, kernels=tmp_path) as runner:
            candidates = runner.draw(sample_candidates, workload, 2, 0).result()
            measured = runner.measure(candidates, runner.platform(1))
            assert runner.in_flight == 1 + len(engine.workers())
        assert [one.outcome for one in measured] == [Outcome.OK, Outcome.OK]
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)  # the runner closes no engine of others


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()
    }
