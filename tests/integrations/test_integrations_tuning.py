"""MetaSchedule's entry points with all plug-ins, from the first trial to the kernel."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tuned_programs import Pretended, Pretending, cuda, matmul, on_h100, own_logs, search
from tvm.s_tir import meta_schedule as ms

import costmodel.integrations.tvm
from costmodel.integrations.tvm import CostModel, Database, tuning_options
from costmodel.kernels import make_target, open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Workload

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


@pytest.fixture(autouse=True)
def small_search(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make ``ms.tune_tir`` search with a small population and in small batches, unless told otherwise."""
    original = ms.tune_tir

    def tune_tir(*arguments: Any, **options: Any) -> Any:
        small = {"num_trials_per_iter": 8, "strategy": search(), "num_tuning_cores": 1, "seed": 1}
        return original(*arguments, **{**small, **options})

    monkeypatch.setattr(ms, "tune_tir", tune_tir)
    with own_logs():
        yield


def test_three_lines_tune_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(costmodel.integrations.tvm) or "", re.DOTALL)
    module, target = open_space(Workload.parse("matmul-m64-n64-k64"), "cpu").module, make_target("cpu")
    names = {"ms": ms, "module": module, "target": target, "work_dir": str(tmp_path / "work")}
    exec(lines, names)
    options, database = names["options"], names["database"]
    options["runner"].close()
    options["builder"].close()
    assert len(database) == 16
    assert database is options["database"] or len(options["database"]) == 16
    assert options["cost_model"].platform == options["runner"].platform
    answer = options["database"].best_for(module)
    assert answer.exact
    assert answer.latency_s < 1e-2
    schedule = database.query(module, target, kind="schedule")
    run = tvm.compile(schedule.mod, target=target)["main"]
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype("float32")
    arrays = [tvm.runtime.tensor(array) for array in (a, b, np.full_like(a, np.nan))]
    run(*arrays)
    assert np.allclose(arrays[-1].numpy(), a @ b, atol=1e-3)


@pytest.mark.parametrize("model", ["ours", "xgb"])
def test_a_gpu_target_without_a_gpu(tmp_path: Path, model: str) -> None:
    register_tensor_intrinsics()
    platform = on_h100()
    database = Database(tmp_path / "a.jsonl", platform)
    cost_model = CostModel(platform=platform) if model == "ours" else "xgb"
    if model == "xgb":
        pytest.importorskip("xgboost")
    ms.tune_tir(
        matmul(),
        cuda(),
        str(tmp_path / "work"),
        max_trials_global=16,
        builder=Pretending(tmp_path / "kernels"),
        runner=Pretended(),
        database=database,
        cost_model=cost_model,
    )
    records = database.get_all_tuning_records()
    seconds = [float(record.run_secs[0]) for record in records if record.run_secs]
    assert len(records) == 16
    assert len(seconds) > 0
    best = database.query(matmul(), cuda(), kind="record")
    assert float(best.run_secs[0]) == min(seconds)
    if model == "ours":
        (task,) = cost_model._inst._tasks.values()
        assert sorted(task.y[np.isfinite(task.y)]) == pytest.approx(sorted(seconds))
        assert np.isinf(task.y).sum() == 16 - len(seconds)


@pytest.mark.gpu
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="needs an NVIDIA GPU")
def test_three_lines_tune_for_some_sms_of_a_gpu(tmp_path: Path) -> None:
    options = tuning_options(tmp_path / "a.jsonl", sms=32)
    database = ms.tune_tir(matmul(), cuda(), str(tmp_path), max_trials_global=16, **options)
    assert options["runner"].platform.sms_granted == 32
    assert options["runner"].platform.isolation == "green_context"
    ran = [record for record in database.get_all_tuning_records() if record.run_secs]
    assert len(ran) >= 12
    assert all(float(s) < 1.0 for record in ran for s in record.run_secs)
    for name in ("runner", "builder"):
        options[name].close()
