import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.learners import KernelRidge, RandomForestLearner, XGBoostLearner
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._known_elsewhere import KnownElsewhere
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._source_rules import NearestTask, WeightedConsensus
from costmodel.learners._stack import AboveAnalytic, Stack
from costmodel.learners._stored_state import StoredState
from costmodel.learners.trees._boosted_trees import XGBoostRanker
from costmodel.learners.trees._checked_booster import check_booster
from costmodel.learners.trees._ubjson import read_ubjson
from costmodel.testing import contract_rows
from costmodel.transfer import Model, load_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._guarded import Guarded
from costmodel.transfer.models._residual import FromScratch, Residual
from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box

COLUMNS = ModelMetadata(columns=tuple("abcde"))


def ridge() -> KernelRidge:
    return KernelRidge(0, landmarks=20)


def scaled() -> ScaledFromWhole:
    return ScaledFromWhole(ridge(), XGBoostLearner(rounds=5), (0, 2), 1)


KINDS = {
    "boosted": lambda: Residual(XGBoostLearner(0, rounds=10)),
    "forest": lambda: Residual(RandomForestLearner(0, trees=5)),
    "stack": lambda: Residual(Stack((ridge(), XGBoostRanker(rounds=5)), (0,), folds=2)),
    "known": lambda: Residual(KnownElsewhere(scaled(), (1,))),
    "above": lambda: Residual(AboveAnalytic(AnalyticPrior(0, (2, 4), 1), XGBoostLearner(5, rounds=5))),
    "consensus": lambda: Residual(WeightedConsensus((0, 1), bandwidth=0.3)),
    "nearest": lambda: Residual(NearestTask((0, 1))),
    "mixture": lambda: SourceMixture((0, 1), (1,)),
    "intervals": lambda: Conformal(Residual(ridge()), (0, 1), (0,), (1,), folds=2),
    "guarded": lambda: Guarded(Residual(ridge()), FromScratch(), (0, 1), folds=2),
}


def test_altered_files_are_refused_or_predict_finite_numbers(tmp_path) -> None:
    pytest.importorskip("xgboost")
    for kind, make in KINDS.items():
        Model(make().fit(*contract_rows()), COLUMNS).save(tmp_path / kind)
    script = Path(__file__).with_name("altered_models.py")
    files = [str(tmp_path / kind) for kind in KINDS]
    command = [sys.executable, "-W", "ignore", str(script), *files, "--count", "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # the process lives
    found = {name: list(map(int, counts)) for name, *counts in map(str.split, done.stdout.splitlines())}
    assert found.keys() == KINDS.keys()
    for kind, (refused, fine, escaped) in found.items():
        assert (refused + fine, escaped) == (40, 0), f"{kind}: {done.stderr}"
        assert refused > 5


def boosted_state(**settings) -> dict:
    return XGBoostLearner(0, rounds=3, **settings).fit(*contract_rows()).state()


def test_what_xgboost_writes_is_read_as_it_was_written() -> None:
    pytest.importorskip("xgboost")
    learner = XGBoostLearner(0, rounds=3).fit(*contract_rows())
    tree = read_ubjson(bytes(learner.booster_.save_raw("ubj")))["learner"]["gradient_booster"]["model"][
        "trees"
    ][1]
    frame = learner.booster_.trees_to_dataframe()
    frame = frame[frame["Tree"] == 1]
    gain = np.where(frame["Feature"] == "Leaf", 0.0, frame["Gain"])
    np.testing.assert_allclose(tree["loss_changes"], gain, rtol=1e-6)
    np.testing.assert_allclose(tree["sum_hessian"], frame["Cover"], rtol=1e-6)


def replaced(content: bytes, name: str, at: int, value: int) -> bytes:
    """UBJSON in which one of the 32-bit numbers of the first array of this name is another."""
    start = content.index(name.encode() + b"[$l#L") + len(name) + 5 + 8 + 4 * at
    return content[:start] + value.to_bytes(4, signed=True) + content[start + 4 :]


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("left_children", 0, 10**6, "left_children must lie between -1 and"),
        ("left_children", 1, 0, "children must stand behind their parents"),
        ("left_children", 0, 2, "must not be the same node"),
        ("right_children", 0, -1, "two children or none"),
        ("right_children", 0, 4, "parents must be those of the children"),
        ("split_indices", 0, 5, "split_indices must lie between 0 and 4"),
        ("split_indices", 0, -1, "split_indices must lie between 0 and 4"),
        ("parents", 0, 0, "the first node must be the root"),
    ],
)
def test_trees_that_lead_astray_never_reach_xgboost(name, at, value, message) -> None:
    pytest.importorskip("xgboost")
    state = boosted_state()
    state["booster"] = replaced(state["booster"], name, at, value)
    with pytest.raises(ValueError, match=message):
        XGBoostLearner(0).load_state(state)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"gbtree", b"gblink", "must be of trees"),
        (b"squarederror", b"squaredfault", "objective must be"),
        (b"num_classSL\0\0\0\0\0\0\0\x010", b"num_classSL\0\0\0\0\0\0\0\x015", "num_class must be 0"),
        (b"feature_types[#L\0\0\0\0\0\0\0\0", b"feature_types[#L\0\0\0\0\0\0\0\x01i\1", "no arrays but"),
        (b"base_score", b"best_score", "base_score"),
    ],
)
def test_boosters_of_another_kind_are_refused(old, new, message) -> None:
    pytest.importorskip("xgboost")
    booster = boosted_state()["booster"].replace(old, new)
    with pytest.raises((ValueError, KeyError), match=message):
        check_booster(booster, 5, "reg:squarederror")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must hold 1 bytes"),
        (b"{", "must hold 1 bytes"),
        (b"[$d#L" + bytes(3), "must hold 8 bytes"),
        (b"[$d#L" + (10**15).to_bytes(8), "must hold 4000000000000000 bytes"),
        (b"[$d#L" + (-1).to_bytes(8, signed=True), "must hold -4 bytes"),
        (b"[#L" + (10**15).to_bytes(8), "must hold 1 bytes"),
        (b"[1]", "must give its length"),
        (b"[$S#L" + bytes(8), "must be of numbers"),
        (b"{L" + (1).to_bytes(8) + b"aZL" + (1).to_bytes(8) + b"aZ}", "'a' is there twice"),
        (b"{i\1aZ}", "must begin with its length"),
        (b"ZZ", "1 bytes follow"),
        (b"x", "no type b'x'"),
        (b"[#L\0\0\0\0\0\0\0\1" * 20 + b"Z", "at most 16 deep"),
    ],
)
def test_other_bytes_are_no_ubjson(content, message) -> None:
    with pytest.raises(ValueError, match=message):
        read_ubjson(content)


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [("children", (0, 0), 10**6), ("children", (0, 0), -5), ("children", (3, 1), 2), ("feature", 0, 5)],
)
def test_forests_that_lead_astray_are_refused(name, at, value) -> None:
    learner = RandomForestLearner(0, trees=3).fit(*contract_rows())
    state = learner.state()
    state[name] = state[name].copy()
    state[name][at] = value
    with pytest.raises(ValueError, match=r"must lie between|behind their parents"):
        RandomForestLearner(0).load_state(state)


def test_settings_that_fit_no_state_are_refused_on_loading(tmp_path) -> None:
    model = Residual(ridge()).fit(*contract_rows())
    model.learner.baseline_column = 77
    Model(model, COLUMNS).save(tmp_path / "model")
    with pytest.raises(CostModelError, match="index 77 is out of bounds"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("value", ["x", [1.0, 2.0], None, float("nan"), True])
def test_settings_of_another_type_are_refused(tmp_path, value) -> None:
    model = Residual(ridge()).fit(*contract_rows())
    model.noise = value
    Model(model, COLUMNS).save(tmp_path / "model")
    with pytest.raises(CostModelError, match="noise of Residual"):
        load_model(tmp_path / "model")


def test_numbers_that_are_not_finite_are_refused_where_they_are_predicted() -> None:
    model = Model(Residual(ridge()).fit(*contract_rows()), COLUMNS)
    model.model.learner.weights_[:] = 1e300
    with pytest.raises(CostModelError, match=r"must predict finite numbers, but for \d+ of"):
        model.predictions(contract_rows()[0])


def test_nested_documents_are_refused(tmp_path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        archive.writestr("model.json", "[" * 100_000)
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], "must be an array"),
        (np.ones(3, dtype=np.int64), "must not be of type int64"),
        (np.ones((3, 1)), "must have 1 dimensions, not 2"),
        (np.ones(4), "must have length 3, but has 4"),
        (np.array([1.0, np.nan, 1.0]), "must not hold NaN"),
        (np.array([1.0, np.inf, 1.0]), "must be finite"),
    ],
)
def test_a_value_of_another_kind_is_refused(value, message) -> None:
    stored = StoredState({"first": np.ones(3), "second": value})
    stored.floats("first", "n")
    with pytest.raises(ValueError, match=f"second {message}"):
        stored.floats("second", "n")
