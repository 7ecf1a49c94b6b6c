"""A learner that another package brings is named, trained, saved and loaded as ours are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from costmodel.columns import Column, position, positions
from costmodel.errors import CostModelError
from costmodel.learners import RidgeLearner, register
from costmodel.learners._registry import _OWN_LEARNERS, class_key, learner_class, stored_class

pytestmark = pytest.mark.white_box

LEARNER = '''
import numpy as np
from costmodel.columns import position
from costmodel.learners import Learner, Prediction, RidgeLearner, check_features, prepare, register


@register()
class Shift(RidgeLearner):
    """A part of another."""


class MedianAboveBound(Learner):
    """The lower bound times a factor, the median over all rows."""

    def __init__(self, bound_column, seed=0, part=None):
        self.bound_column, self.seed, self.part = bound_column, seed, part

    @classmethod
    def for_columns(cls, columns, seed):
        return cls(position(columns, "lower_bound"), seed, Shift())

    def fit(self, X, y, task_ids):
        training = prepare(X, y, task_ids)
        self.width_ = X.shape[1]
        bound = training.X[:, self.bound_column] * np.log(2.0)
        self.factor_ = float(np.median(training.clipped_log_latency - bound))
        return self

    def predict(self, X):
        check_features(X, self.width_)
        log_s = X[:, self.bound_column] * np.log(2.0) + self.factor_
        return Prediction(-log_s, np.exp(log_s))

    def state(self):
        return {"width": self.width_, "factor": self.factor_}

    def load_state(self, state):
        self.width_, self.factor_ = state["width"], state["factor"]
        return self
'''
TRAIN = """
import sys
from costmodel.testing import LEARNER_CHECKS, gpu_landscape
from costmodel.learners import learner_names
from costmodel.learners._registry import learner_class
from costmodel.tuning import evaluate, train

assert "medians" in learner_names() and "median_learners" not in sys.modules
data = gpu_landscape(configs_per_workload=8, sms=(8, 132))
model = train(data, "medians+intervals", seed=3)
print(model.predict(data.candidates[:3], sms=8)["latency_s"].tolist())
model.save("model")
assert set(evaluate(data, ["medians"], folds=2).tasks["learner"]) >= {"medians", "random"}
for check in LEARNER_CHECKS:
    check(lambda: learner_class("medians")(0))
"""
LOAD = """
from costmodel.testing import gpu_landscape
from costmodel.transfer import load_model

data = gpu_landscape(configs_per_workload=8, sms=(8, 132))
print(load_model("model").predict(data.candidates[:3], sms=8)["latency_s"].tolist())
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed distribution with one learner."""
    site = tmp_path / "site"
    info = site / "median_learners-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "median_learners.py").write_text(LEARNER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: median-learners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[costmodel.learners]\nmedians = median_learners:MedianAboveBound\n"
    )
    return site


def run(code: str, folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*map(str, paths), str(Path(__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_learner_of_another_package_is_trained_saved_and_loaded(package: Path, tmp_path: Path) -> None:
    trained = run(TRAIN, tmp_path, package)
    assert trained.returncode == 0, trained.stderr
    loaded = run(LOAD, tmp_path, package)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout == trained.stdout
    without = run(LOAD, tmp_path)
    assert "needs median_learners:MedianAboveBound" in without.stderr
    assert "costmodel.learners" in without.stderr


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("raise ImportError('no part of it')", "no part of it"),
        ("MedianAboveBound = 3", "must be a class derived from Learner"),
        ("", "cannot be loaded"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(package: Path, tmp_path: Path, written, message) -> None:
    (package / "median_learners.py").write_text(written)
    code = "from costmodel.transfer import make_model; make_model('medians', ())"
    failed = run(code, tmp_path, package)
    assert message in failed.stderr
    assert "of the package median-learners" in failed.stderr
    code = "from costmodel.transfer import make_model; make_model('ridge', ())"
    assert run(code, tmp_path, package).returncode == 0


@pytest.mark.parametrize("name", _OWN_LEARNERS)
def test_the_table_names_the_class_of_each_learner(name: str) -> None:
    key = _OWN_LEARNERS[name].partition(":")[2]
    assert class_key(learner_class(name)) == key
    assert stored_class(key) is learner_class(name)


class Other(RidgeLearner):
    """Of another name."""


def test_a_registered_class_can_be_named_at_once(tmp_path: Path) -> None:
    code = (
        "from costmodel.learners import RidgeLearner, learner_names, register\n"
        "from costmodel.transfer import make_model\n"
        "@register('mine')\n"
        "class Mine(RidgeLearner): pass\n"
        "assert isinstance(make_model('mine+guard', ()).model.learner, Mine)\n"
        "assert 'mine' in learner_names()\n"
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_name_belongs_to_one_class() -> None:
    with pytest.raises(ValueError, match="'ridge' is RidgeLearner"):
        register("ridge")(Other)
    with pytest.raises(CostModelError, match=r"one of .*ridge, .*but got 'ridges'"):
        learner_class("ridges")


def test_unknown_groups_and_tags_raise_and_missing_columns_do_not() -> None:
    columns = (Column("size", "1", "workload"), Column("bound", "s", "platform", frozenset({"lower_bound"})))
    assert positions(columns, "workload", tags=("lower_bound",)) == (0, 1)
    assert positions(columns, "config", tags=("sms",)) == ()
    assert position(columns, "lower_bound") == 1
    with pytest.raises(ValueError, match="one column must be tagged 'sms'"):
        position(columns, "sms")
    for wrong in (
        lambda: positions(columns, "workloads"),
        lambda: positions(columns, tags=("lower bound",)),
        lambda: Column("size", "1", "workloads"),
        lambda: Column("size", "1", "workload", frozenset({"bound"})),
    ):
        with pytest.raises(ValueError, match="must be among"):
            wrong()
