"""What is wrong in stock MetaSchedule 0.27, and right here.

Beside each stands that stock has the defect, so that these tests tell when it is mended there.
"""

import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tuned_programs import cuda, drawn, matmul, on_h100, result
from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError
from costmodel.integrations.tvm import CostModel, Database

pytestmark = pytest.mark.tvm


def xgb_model(**settings: Any) -> Any:
    pytest.importorskip("xgboost")
    return ms.cost_model.XGBModel(num_tuning_cores=1, **settings)


def commit(database: Any, seconds: float, target: Any) -> None:
    context, candidates = drawn("matmul")
    workload = database.commit_workload(context.mod)
    record = (candidates[0].sch.trace, workload, [seconds], target, candidates[0].args_info)
    database.commit_tuning_record(ms.database.TuningRecord(*record))


def test_an_untrained_model_can_be_saved_and_loaded(tmp_path: Path) -> None:
    CostModel(platform=on_h100()).save(str(tmp_path / "ours"))
    context, candidates = drawn("matmul")
    loaded = CostModel(tmp_path / "ours", platform=on_h100())
    assert loaded.predict(context, candidates).shape == (len(candidates),)
    xgb_model().save(str(tmp_path / "stock"))
    with pytest.raises(RuntimeError, match="booster"):
        xgb_model().load(str(tmp_path / "stock"))


def test_no_setting_is_ignored() -> None:
    context, candidates = drawn("matmul")
    few, many = (CostModel(platform=on_h100(sms)).predict(context, candidates) for sms in (8, 132))
    assert not np.array_equal(few, many)
    with pytest.raises(TypeError):
        CostModel(tree_method="hist")
    assert "hist" not in map(str, xgb_model(tree_method="hist").config.to_dict().values())


def test_a_first_batch_that_fails_is_not_the_best_there_is() -> None:
    context, candidates = drawn("matmul")
    failed = candidates[:4]
    ours, stock = CostModel(platform=on_h100()), xgb_model(verbose_eval=0)
    for model in (ours, stock):
        model.update(context, failed, [result(None)] * len(failed))
    after = ours.predict(context, candidates)
    assert after[:4].mean() < after[4:].mean()
    assert after[:4].max() < after[4:].max()
    (group,) = stock.data.values()
    assert (group.min_cost / group.costs == 1.0).all()  # the label of the best candidate


def test_a_record_of_another_target_is_no_answer(tmp_path: Path) -> None:
    a100 = tvm.target.Target("nvidia/nvidia-a100")
    ours, stock = Database(tmp_path / "a.jsonl", on_h100()), ms.database.JSONDatabase(work_dir=str(tmp_path))
    for database in (ours, stock):
        commit(database, 1e-3, a100)
    assert ours.query(matmul(), cuda(), kind="record") is None
    assert ours.query(matmul(), a100, kind="record") is not None
    assert stock.query(matmul(), cuda(), kind="record") is not None


@pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning")
def test_a_torn_last_line_leaves_a_readable_database(tmp_path: Path) -> None:
    def ours() -> Any:
        return Database(tmp_path / "a.jsonl", on_h100())

    def stock() -> Any:
        return ms.database.JSONDatabase(work_dir=str(tmp_path))

    files = tmp_path / "a.jsonl", tmp_path / "database_tuning_record.json"
    for opened, file in zip((ours, stock), files, strict=True):
        commit(opened(), 1e-3, cuda())
        commit(opened(), 2e-3, cuda())
        file.write_bytes(file.read_bytes()[:-50])
    assert [float(record.run_secs[0]) for record in ours().get_all_tuning_records()] == [1e-3]
    with pytest.raises(Exception, match=r".+"):
        stock()


class Attack:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["COSTMODEL_ATTACKED"],)


def test_loading_a_model_runs_no_code_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attacked = tmp_path / "attacked"
    monkeypatch.setenv("COSTMODEL_ATTACKED", str(attacked))
    np.save(tmp_path / "data.npy", np.array([Attack()], dtype=object))
    with tarfile.open(tmp_path / "model.tar", "w") as archive:
        archive.add(tmp_path / "data.npy", "data.npy")
    with pytest.raises(CostModelError):
        CostModel(tmp_path / "model.tar")
    with pytest.raises(CostModelError):
        CostModel(tmp_path / "data.npy")
    assert not attacked.exists()
    with pytest.raises(Exception, match=r".+"):
        xgb_model().load(str(tmp_path / "model.tar"))
    assert attacked.exists()
