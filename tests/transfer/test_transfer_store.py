import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.learners import (
    KernelRidge,
    MultitaskNetwork,
    RandomForestLearner,
    RidgeLearner,
    XGBoostLearner,
)
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._random import RandomLearner
from costmodel.learners._source_rules import NearestTask, WeightedConsensus
from costmodel.learners._stack import Stack
from costmodel.learners.trees._boosted_trees import XGBoostRanker
from costmodel.records import find_device
from costmodel.testing import contract_rows
from costmodel.transfer import Model, TransferModel, load_model
from costmodel.transfer._store import ModelMetadata, read_card, software_versions
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._guarded import Guarded
from costmodel.transfer.models._residual import FromScratch, Residual
from costmodel.transfer.models._ridge_on_sources import RidgeOnSources
from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box

MODELS = {
    "random": Residual(RandomLearner(7)),
    "nearest": Residual(NearestTask((0, 1), neighbours=2), length=0.9),
    "consensus": Residual(WeightedConsensus((0, 1), bandwidth=0.3)),
    "ridge": Residual(RidgeLearner(alpha=0.1)),
    "xgboost": Residual(XGBoostLearner(0, rounds=10, seed=3)),
    "kernel ridge": Residual(KernelRidge(0, landmarks=20)),
    "sources": RidgeOnSources((0, 1), std=2.0),
    "mixture": SourceMixture((0, 1), (1,), mixing=0.2),
    "scratch": FromScratch(),
    "intervals": Conformal(Residual(KernelRidge(0, landmarks=20)), (0, 1), (0,), folds=2),
    "guarded": Guarded(Residual(RidgeLearner()), FromScratch(), (0, 1), folds=2),
    "analytic": Residual(AnalyticPrior(0, (2, 4), 1)),
    "random forest": Residual(RandomForestLearner(0, trees=5)),
    "xgboost rank": Residual(XGBoostRanker(rounds=10)),
    "network": Residual(MultitaskNetwork((0,), 0, width=8, steps=5)),
    "stack": Residual(Stack((RidgeLearner(), KernelRidge(0, landmarks=20)), (0,), folds=2)),
}


ABOUT = ModelMetadata(dataset="abc", workloads=("a", "b"), rows=5, devices=(find_device("RTX 3090"),))


def save(path: Path, model: TransferModel) -> None:
    Model(model.fit(*contract_rows()), ABOUT).save(path)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_models_round_trip(tmp_path, model) -> None:
    if model is MODELS["network"]:
        pytest.importorskip("torch")
    save(tmp_path / "deep" / "model", model)
    loaded = load_model(tmp_path / "deep" / "model")
    X, y, _ = contract_rows()
    assert loaded.metadata == ABOUT
    assert type(loaded.model) is type(model)
    np.testing.assert_array_equal(loaded.model.predict(X).score, model.predict(X).score)
    few = y[:5].clip(max=1.0)
    np.testing.assert_array_equal(
        loaded.model.adapt(X[:5], few).predict(X).score, model.adapt(X[:5], few).predict(X).score
    )


def test_files_hold_no_pickle(tmp_path) -> None:
    save(tmp_path / "model", MODELS["consensus"])
    with zipfile.ZipFile(tmp_path / "model") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {Path(name).suffix for name in names} == {".json", ".npy"}
        for name in names:
            if name.endswith(".npy"):
                with archive.open(name) as member:
                    assert np.lib.format.read_magic(member) == (1, 0)
                    assert not np.lib.format.read_array_header_1_0(member)[2].hasobject


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_truncated_files_are_refused(tmp_path, keep) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    whole = path.read_bytes()
    path.write_bytes(
        whole[: keep if isinstance(keep, int) and keep != 1 else int(len(whole) * keep) - (keep == 1)]
    )
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(path)


def test_every_flipped_byte_is_refused_or_harmless(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    whole, X = path.read_bytes(), contract_rows()[0]
    expected = load_model(path).model.predict(X).score
    for position in range(0, len(whole), 37):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x41]) + whole[position + 1 :])
        try:
            score = load_model(path).model.predict(X).score
        except CostModelError:
            continue
        np.testing.assert_array_equal(score, expected)


def rewrite(path: Path, **changes) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["model.json"]) | changes
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"model.json": json.dumps(document).encode()}).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "format is 'other'"),
        ({"format_version": 99}, "must have format version 3, but has 99"),
        ({"format_version": 2}, "must have format version 3, but has 2"),
        ({"model": {"class": "Popen", "settings": {"args": "ls"}}}, "needs Popen, which is no class"),
        ({"model": {"class": "os:system", "settings": {}}}, "needs os:system, which is no class"),
        ({"model": {"class": "RidgeLearner", "settings": {}}}, "no transfer model"),
        ({"model": {"class": "Residual", "settings": {"unknown": 1}}}, "damaged or something else"),
        ({"model": []}, "damaged or something else"),
        ({"state": {}}, "damaged or something else"),
        ({"metadata": {"learner": 3}}, "damaged or something else"),
        ({"metadata": {"workload": "misspelt"}}, "damaged or something else"),
    ],
)
def test_foreign_documents_are_refused(tmp_path, changes, message) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    rewrite(path, **changes)
    with pytest.raises(CostModelError, match=message):
        load_model(path)


def test_other_files_and_missing_ones_are_refused(tmp_path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(tmp_path / "text")
    with pytest.raises(CostModelError, match="Cannot read the model"):
        load_model(tmp_path / "missing")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(tmp_path / "zip")


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    before = path.read_bytes()

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CostModelError, match="No space left"):
        save(path, MODELS["sources"])
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_models_of_other_classes_are_not_saved(tmp_path) -> None:
    class Mine(RidgeLearner):
        pass

    class Unstorable(TransferModel):
        def fit(self, X, y, task_ids):
            return self

        def predict(self, X):
            raise NotImplementedError

        def adapt(self, X, y):
            raise NotImplementedError

    with pytest.raises(CostModelError, match="but got Unstorable"):
        save(tmp_path / "model", Unstorable())
    with pytest.raises(CostModelError, match="Mine is none"):
        save(tmp_path / "model", Residual(Mine()))
    assert not list(tmp_path.iterdir())


def test_the_card_says_what_the_model_is_without_its_arrays(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["guarded"])
    card = read_card(path)
    assert card.metadata == load_model(path).metadata == ABOUT
    assert card.model["class"] == "Guarded"
    assert (
        card.model["settings"]["model"]["$model"]["settings"]["learner"]["$model"]["class"] == "RidgeLearner"
    )
    assert card.bytes == path.stat().st_size


@pytest.mark.parametrize(
    "model",
    [
        {"settings": {}},
        {"class": 3, "settings": {}},
        {"class": "a", "settings": "b"},
        {"class": "a", "settings": {"prior": {"$model": {"settings": {}}}}},
        {"class": "a", "settings": {"parts": [{"model": 1}]}},
    ],
)
def test_a_card_whose_model_is_not_described_is_refused(tmp_path, model) -> None:
    save(path := tmp_path / "model", FromScratch())
    rewrite(path, model=model)
    with pytest.raises(CostModelError, match="but it is damaged or something else"):
        read_card(path)


def test_attachments_are_kept_beside_the_model(tmp_path) -> None:
    path, rows = tmp_path / "model", {"a@b": {"X": np.eye(3), "y": np.array([1.0, np.inf, 2.0])}}
    Model(MODELS["ridge"].fit(*contract_rows()), attachments={"measured": rows}).save(path)
    loaded = load_model(path).attachments["measured"]["a@b"]
    np.testing.assert_array_equal(loaded["X"], rows["a@b"]["X"])
    np.testing.assert_array_equal(loaded["y"], rows["a@b"]["y"])


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.bin", bytes(20_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(CostModelError, match=r"unpack to at most 1,000,000 bytes, but .* has 20,"):
        load_model(path, most_bytes=1_000_000)
    assert load_model(path).metadata == ABOUT


def test_a_member_that_is_larger_than_it_declares_is_refused(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.bin", bytes(20_000_000))
    size = (20_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(path, most_bytes=1_000_000)


def test_an_array_that_declares_more_than_it_has_is_refused_without_allocating_it(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["ridge"])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith(".npy"))
    header = io.BytesIO()
    shape = {"shape": (10**14,), "fortran_order": False, "descr": "<f8"}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "w") as archive:
        for each, content in (members | {name: header.getvalue() + bytes(64)}).items():
            archive.writestr(each, content)
    with pytest.raises(CostModelError, match="damaged or something else"):
        load_model(path)


def test_loading_a_model_of_arrays_imports_nothing_heavy(tmp_path) -> None:
    path = tmp_path / "model"
    save(path, MODELS["guarded"])
    code = (
        "import sys; from pathlib import Path; from costmodel.transfer import load_model\n"
        f"load_model(Path({str(path)!r}))\n"
        "print({'torch', 'sklearn', 'scipy', 'xgboost', 'pandas', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_versions_that_are_texts_of_another_class_are_kept_as_texts(monkeypatch) -> None:
    version = type("TorchVersion", (str,), {})("2.11.0+cu130")  # as PyTorch has it
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    found = software_versions()
    assert type(found["torch"]) is str
    assert found["torch"] == "2.11.0+cu130"
