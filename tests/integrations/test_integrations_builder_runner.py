from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms

from costmodel.collector import Timing
from costmodel.errors import CostModelError
from costmodel.integrations.tvm import Builder, Runner
from costmodel.kernels import make_target, open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Workload

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

WORKLOAD = Workload.parse("matmul-m32-n32-k32")
TIMING = Timing(repeats=2, most_repeats=3)


@pytest.fixture(scope="module")
def builder() -> Iterator[Any]:
    builder = Builder(max_workers=1)
    yield builder
    builder.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[Any]:
    runner = Runner(1, kind="cpu", timing=TIMING, build_workers=1)
    yield runner
    runner.close()


def to_build() -> Any:
    """A module that can be built."""
    space = open_space(WORKLOAD, "cpu")
    module = space.schedule(space.sample(np.random.default_rng(0))).mod
    return ms.builder.BuilderInput(module, make_target("cpu"))


def broken() -> Any:
    """A module that cannot be built: its threads are those of a GPU."""
    space = open_space(WORKLOAD, "cuda")
    rng = np.random.default_rng(0)
    return ms.builder.BuilderInput(space.schedule(space.sample(rng)).mod, make_target("cpu"))


def other_module() -> Any:
    space = open_space(Workload.parse("matmul-m16-n32-k32"), "cpu")
    return space.schedule(space.sample(np.random.default_rng(0))).mod


def to_run(artifact: str, shapes: int = 3) -> Any:
    info = ms.arg_info.TensorInfo("float32", [32, 32])
    return ms.runner.RunnerInput(artifact, "cpu", [info] * shapes)


def test_what_was_compiled_for_its_machine_code_is_not_built_again(builder) -> None:
    one, bad = to_build(), broken()
    assert builder.machine_code([one.mod, bad.mod], one.target) == [None, None]  # a CPU has none to count
    first, again = builder.build([one, one])
    folder = Path(first.artifact_path).parents[1]
    assert first.artifact_path != again.artifact_path  # whoever measures one deletes it
    assert len(list(folder.glob("module-*"))) == 2
    (failed,) = builder.build([bad])
    assert failed.artifact_path is None


def test_compiled_kernels_that_nobody_measures_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.integrations.tvm._measuring._MOST_READY", 1)
    builder = Builder(max_workers=1)
    early, late = to_build(), ms.builder.BuilderInput(other_module(), make_target("cpu"))
    builder.machine_code([early.mod, late.mod], early.target)
    (kept,) = builder.build([late])
    folder = Path(kept.artifact_path).parents[1]
    assert len(list(folder.glob("module-*"))) == 1
    (again,) = builder.build([early])
    assert Path(again.artifact_path).is_file()
    builder.machine_code([late.mod, late.mod], late.target)
    builder.machine_code([late.mod], late.target)
    assert len(list(folder.glob("module-*"))) == 3, "one more than was asked for"
    builder.close()


def test_a_module_that_cannot_be_built_costs_nobody_else(builder) -> None:
    first, second, third = builder.build([to_build(), broken(), to_build()])
    assert (second.artifact_path, first.error_msg, third.error_msg) == (None, None, None)
    assert str(second.error_msg).startswith("compile_error: ")
    assert first.artifact_path != third.artifact_path
    for path in (first.artifact_path, third.artifact_path):
        assert [file.name for file in Path(str(path)).parent.iterdir()] == [Path(str(path)).name]
    assert builder.build([]) == []


def test_what_was_built_computes_what_it_should(builder) -> None:
    (built,) = builder.build([to_build()])
    function = tvm.runtime.load_module(str(built.artifact_path))["main"]
    a, b = np.random.default_rng(0).standard_normal((2, 32, 32)).astype("float32")
    arrays = [tvm.runtime.tensor(array) for array in (a, b, np.full_like(a, np.nan))]
    function(*arrays)
    assert np.allclose(arrays[-1].numpy(), a @ b, atol=1e-4)


def test_the_library_s_folder_may_be_removed_as_metaschedule_does(builder) -> None:
    first, second = builder.build([to_build(), to_build()])
    tvm.get_global_func("s_tir.meta_schedule.remove_build_dir")(str(first.artifact_path))
    assert not Path(str(first.artifact_path)).exists()
    assert Path(str(second.artifact_path)).exists()


def test_a_runner_says_how_long_and_where(builder, runner) -> None:
    (built,) = builder.build([to_build()])
    assert (runner.platform.isolation, runner.platform.sms_granted) == ("threads", 1)
    (future,) = runner.run([to_run(str(built.artifact_path))])
    assert future.done()
    result = future.result()
    assert result.error_msg is None
    assert TIMING.repeats <= len(result.run_secs) <= TIMING.most_repeats
    assert all(0 < float(s) < 1e-2 for s in result.run_secs)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_positions_in_another_array_are_within_it(builder, runner, dtype: str) -> None:
    """As those of an embedding: random ones would end the process that measures."""
    table, at = te.placeholder((50, 8), name="table"), te.placeholder((6,), dtype, name="at")
    rows = te.compute((6, 8), lambda i, j: table[at[i], j])
    module = tvm.IRModule({"main": te.create_prim_func([table, at, rows])})
    (built,) = builder.build([ms.builder.BuilderInput(module, make_target("cpu"))])
    information = ms.arg_info.ArgInfo.from_prim_func(module["main"])
    (future,) = runner.run([ms.runner.RunnerInput(str(built.artifact_path), "cpu", information)])
    assert future.result().error_msg is None


def test_what_cannot_be_measured_says_why_and_costs_nobody_else(builder, runner, tmp_path: Path) -> None:
    (built,) = builder.build([to_build()])
    artifact = str(built.artifact_path)
    asked = [to_run(str(tmp_path / "missing.so")), to_run(artifact, shapes=2), to_run(artifact)]
    missing, wrong, right = [future.result() for future in runner.run(asked)]
    assert missing.run_secs is None
    assert str(missing.error_msg).startswith("launch_error: ")
    assert wrong.run_secs is None
    assert right.error_msg is None


def test_modules_for_another_device_are_refused(runner) -> None:
    asked = ms.runner.RunnerInput("module.so", "cuda", [])
    with pytest.raises(CostModelError, match="must be for cpu"):
        runner._inst.run([asked])


@pytest.mark.filterwarnings("ignore:build is deprecated")  # which stock's builder calls
def test_a_runner_takes_what_the_stock_builder_exports(runner) -> None:
    asked = to_build()
    register_tensor_intrinsics()  # as default_build would, but quickly
    module = ms.builder.local_builder.default_build(asked.mod, asked.target, None)
    artifact = ms.builder.local_builder.default_export(module)
    (future,) = runner.run([to_run(artifact)])
    assert future.result().error_msg is None


def test_a_stock_runner_takes_what_our_builder_exports(builder) -> None:
    (built,) = builder.build([to_build()])
    config = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
    stock = ms.runner.LocalRunner(timeout_sec=600, evaluator_config=config)
    (future,) = stock.run([to_run(str(built.artifact_path))])
    assert future.result().error_msg is None


def test_a_runner_that_was_closed_says_so() -> None:
    runner = Runner(1, kind="cpu", timing=TIMING, build_workers=1)
    runner.close()
    with pytest.raises(CostModelError, match="must be open to measure"):
        runner.run([])


def test_an_unknown_kind_of_device_is_refused():
    with pytest.raises(CostModelError, match="must be cuda or cpu, but got 'gpu'"):
        Runner(1, kind="gpu")
