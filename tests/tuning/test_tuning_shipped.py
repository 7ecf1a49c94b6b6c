"""What ships is learned from where nobody says what, and models of it are trained once."""

from dataclasses import replace

import pytest
from unrecorded import Unrecorded

import costmodel
from costmodel.dataset import build_dataset, load_dataset
from costmodel.dataset.table._read import families_in
from costmodel.errors import CostModelError
from costmodel.records import RecordStore, Workload
from costmodel.testing import gpu_landscape
from costmodel.tuning import Prior, _knowledge, _shipped, pretrain, pretrained
from costmodel.tuning._history import ShippedHistory
from costmodel.tuning._shipped import ShippedDataset, models_folder, shipped_for

pytestmark = pytest.mark.white_box

KNOWN, UNKNOWN = "matmul-m512-n512-k512", "matmul-m64-n768-k768"


@pytest.fixture(scope="module")
def landscape():
    """Kernels of two workloads, of which one ships."""
    return gpu_landscape(seed=2, workloads=[KNOWN, UNKNOWN], configs_per_workload=12, sms=[8, 132])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, landscape, header):
    """The one dataset that ships, without models."""
    folder = tmp_path_factory.mktemp("shipped")
    with RecordStore(folder / "records.jsonl") as store:
        store.append(landscape.to_measurements(KNOWN))
    path = build_dataset([folder / "records.jsonl"], folder / "built", header=header).path
    return ShippedDataset(str(path), families_in(path))


@pytest.fixture
def only(dataset, monkeypatch, tmp_path):
    """Nothing else ships, and models are kept apart."""
    monkeypatch.setattr(_shipped, "_installed", lambda: (dataset,))
    monkeypatch.setenv(_shipped.MODELS_VARIABLE, str(tmp_path / "models"))
    monkeypatch.setattr(ShippedDataset, "model_file", models_folder() / "landscape.costmodel")
    return dataset


def knowledge_of(landscape, workload, **settings):
    """What a search on a device says that it learned from."""
    runner = Unrecorded(landscape.to_measurements(workload))
    return costmodel.tune(workload, sms=8, trials=1, on=runner, **settings).search.provenance.knowledge


@pytest.mark.parametrize(
    ("family", "workload", "name"),
    [
        ("", "matmul-m16-n1024-k1024", "h100-sm-budgets"),  # the only one that has it
        ("triton.matmul_float16", "matmul-m100-n204-k72-float16", "triton-sm-budgets"),
        ("cuda.spike_delivery", "cuda.spike_delivery-n100-c10-r10-d1", "sparse-sm-budgets"),
        ("cuda.gemm", "cuda.gemm-m256-n256-k256", "cuda-sm-budgets"),
        ("library.cuda", "softmax-m64-n32000-float16", "triton-sm-budgets"),  # cuda-sm-budgets has others
    ],
)
def test_the_dataset_that_tells_most_of_a_family_is_learned_from(family, workload, name):
    assert shipped_for(family, Workload.parse(workload)).name == name


def test_of_a_family_that_no_dataset_has_nothing_is_told():
    history = ShippedHistory(Workload.parse(KNOWN))
    assert history.of("cuda.mine") is None
    assert history.model("cuda.mine") is None
    assert history.recorded(["cuda.mine"]) == []


def test_families_of_a_dataset_are_those_of_its_candidates():
    expected = {}
    for candidate in load_dataset("cuda-sm-budgets").candidates:
        expected.setdefault(candidate.family, set()).add(candidate.workload.name)
    assert families_in("cuda-sm-budgets") == expected


def test_on_a_device_what_ships_is_learned_from_unless_told_otherwise(only, landscape):
    known = knowledge_of(landscape, KNOWN)
    assert known["model"] == "known-elsewhere"
    assert known["trained_on"] == "this one here of built"
    assert knowledge_of(landscape, KNOWN, prior=None)["model"] == "scratch"


def test_searches_of_one_process_train_once(only, landscape, monkeypatch):
    learned = []
    fitted = _knowledge._fit_rows
    monkeypatch.setattr(_knowledge, "_fit_rows", lambda *told: learned.append(told) or fitted(*told))
    _knowledge._fit_all_rows.cache_clear()
    runner = Unrecorded(landscape.to_measurements(UNKNOWN))
    first, again = (costmodel.tune(UNKNOWN, sms=8, trials=6, on=runner).search.trials for _ in range(2))
    assert first == again  # what the first search measured did not change the model
    assert len(learned) == 1
    knowledge_of(landscape, UNKNOWN, prior=Prior(learner="ridge"))
    assert len(learned) == 2


def test_what_ships_of_the_very_workload_is_measured_first(only, landscape):
    runner = Unrecorded(landscape.to_measurements(KNOWN))
    result = costmodel.tune(KNOWN, sms=8, trials=1, on=runner)
    rows = landscape.rows[(landscape.rows["workload"] == KNOWN) & (landscape.rows["sms_granted"] == 8)]
    assert result.best.latency_s == pytest.approx((rows["latency_s"].min(),))


def test_a_model_of_what_ships_is_trained_once_and_used_for_workloads_that_were_not_measured(only, landscape):
    with pytest.raises(CostModelError, match="Run `costmodel train`"):
        pretrained()
    assert knowledge_of(landscape, UNKNOWN)["model"] == "kernel-ridge"
    (model,) = pretrain().values()
    assert model.path == models_folder() / "landscape.costmodel"
    assert pretrained().metadata == model.metadata
    assert knowledge_of(landscape, UNKNOWN)["model"] == f"{model.path} (kernel-ridge)"
    assert knowledge_of(landscape, UNKNOWN, prior=Prior(learner="ridge"))["model"] == "ridge"
    assert knowledge_of(landscape, KNOWN)["model"] == "known-elsewhere"


@pytest.mark.parametrize("changed", ["version", "measurements"])
def test_a_model_of_another_version_or_of_other_measurements_is_not_used(only, monkeypatch, changed):
    pretrain()
    assert only.model() is not None
    if changed == "version":
        monkeypatch.setattr(_shipped, "__version__", "0.0.1")
    else:
        monkeypatch.setattr(_shipped, "hash_dataset", lambda name: "0" * 64)
    assert only.model() is None


def test_a_dataset_whose_families_others_have_is_left_out_and_the_model_of_these_used(
    only, monkeypatch, landscape
):
    larger = replace(only, families={"": frozenset({"softmax-m512-n512"}), "cuda.gemm": frozenset()})
    monkeypatch.setattr(_shipped, "_installed", lambda: (larger, only))
    assert _shipped._without_repeats([larger, only]) == [larger]
    pretrain()
    assert shipped_for("", Workload.parse(KNOWN)) is only
    assert pretrained("", Workload.parse(KNOWN)).metadata.workloads == (KNOWN,)


def test_a_model_may_learn_from_other_datasets_than_its_own(only, monkeypatch, tmp_path, landscape, header):
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append(landscape.to_measurements(UNKNOWN))
    other = str(build_dataset([tmp_path / "records.jsonl"], tmp_path / "other", header=header).path)
    (alone,) = pretrain().values()
    assert only.model() is not None
    monkeypatch.setattr(_shipped, "_LEARNER_OF_MANY", "ridge")
    monkeypatch.setattr(_shipped, "_TAUGHT_BY", {only.name: (only.name, "not-installed")})
    assert only.model() is not None  # learned from the dataset itself, as long as something is missing
    monkeypatch.setattr(_shipped, "_TAUGHT_BY", {only.name: (only.name, other)})
    assert only.model() is None
    (model,) = pretrain().values()
    assert model.metadata.workloads == tuple(sorted([KNOWN, UNKNOWN]))
    assert model.metadata.rows == 2 * alone.metadata.rows
    assert model.metadata.learner == "ridge+intervals"
    assert only.model() is not None
    # A search for a workload that was measured is told of the dataset that has it.
    assert knowledge_of(landscape, KNOWN)["trained_on"] == "this one here of built"
