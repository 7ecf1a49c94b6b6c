"""A trained model as an object."""

from dataclasses import replace
from typing import Self

import msgspec
import numpy as np
import pytest
from fake_records import fake_measurement
from msgspec import structs

from costmodel.dataset import Dataset
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.kernels._design_space import sample
from costmodel.kernels._sources import SOURCES, open_sources, source_for
from costmodel.learners import Prediction
from costmodel.records import Candidate, Config, Device, Measurement, Workload, find_device
from costmodel.records._candidate import KernelLaunch
from costmodel.records._hypothetical import hypothetical
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._platform import part_of
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape, landscape_platform
from costmodel.transfer import Model, StorableModel, load_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.models._residual import FromScratch
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, read_device
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")
HIP = Device("AMD GPU", "hip", "", 999, 9999.0)
NEW, RECORDED = WORKLOADS[0], "matmul-m16-n1024-k1024"


@pytest.fixture(scope="module")
def data():
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=16, sms=(8, 132))


@pytest.fixture(scope="module")
def model(data) -> Model:
    return train(data, "kernel-ridge+intervals", hold_out=[NEW])


def test_a_prediction_is_that_of_the_arrays_best_first(model, data) -> None:
    found = model.predict(NEW, sms=8, kernels=data)
    candidates = {each.candidate_id: each for each in data.candidates if each.workload.name == NEW}
    ranked = [candidates[each] for each in found["candidate_id"]]
    expected = model.model.predict(extract(ranked, [landscape_platform(8)] * len(ranked)).values)
    assert found["rank_score"].is_monotonic_decreasing
    assert len(found) == len(candidates)
    np.testing.assert_allclose(found["rank_score"], expected.score)
    np.testing.assert_allclose(found["latency_s"], expected.latency_s)
    np.testing.assert_allclose(found["high_s"], expected.high_s)
    assert found["config"].tolist() == [each.config.decisions for each in ranked]
    assert found.attrs["platforms"] == [landscape_platform(8).name]


def test_columns_without_values_are_left_out(model, data) -> None:
    known = {"sms", "candidate_id", "config", "rank_score", "latency_s", "low_s", "high_s", "unfamiliarity"}
    assert set(model.predict(NEW, kernels=data)) == known
    plain = train(data, "ridge")
    assert set(plain.predict(NEW, kernels=data)) == known - {"low_s", "high_s", "unfamiliarity"}
    assert set(train(data, "xgboost-rank").predict(NEW, kernels=data)) == {
        "sms",
        "candidate_id",
        "config",
        "rank_score",
    }


def test_several_budgets_are_ranked_one_after_the_other(model, data) -> None:
    both = model.predict(Workload.parse(NEW), sms=(8, 132), kernels=data)
    for sms in (8, 132):
        part = both[both["sms"] == sms].reset_index(drop=True)
        alone = model.predict(NEW, sms=sms, kernels=data)
        np.testing.assert_allclose(part["rank_score"], alone["rank_score"])


def test_a_model_just_trained_and_one_out_of_a_file_are_the_same(model, data, tmp_path) -> None:
    model.save(tmp_path / "model")
    loaded = load_model(str(tmp_path / "model"))
    assert loaded.metadata == model.metadata
    assert loaded.predict(NEW, kernels=data).equals(model.predict(NEW, kernels=data))
    assert repr(loaded) == repr(model)
    assert len(repr(model)) < 200
    assert ">kernel-ridge+intervals</td>" in model._repr_html_()


def test_a_device_never_measured_is_told(model, data) -> None:
    with pytest.warns(UnmeasuredDeviceWarning, match=r"H200: never measured on this device.*landscape GPU"):
        found = model.predict(NEW, device="H200", kernels=data)
    assert set(found["note"].str.split("; ").str[0]) == {"never measured on this device"}
    assert (
        found["note"].str.contains("no interval, as all that was learned from is of one architecture").all()
    )
    assert not model.has_measured(find_device("H200"))
    assert model.has_measured(LANDSCAPE_DEVICE)


class SlowOnMoreMemory(StorableModel):
    """Believes kernels to take as many seconds as log2 of the bandwidth says."""

    def __init__(self, columns) -> None:
        self.at = [column.name for column in columns].index("log2_bandwidth")

    def fit(self, X, y, task_ids) -> Self:
        return self

    def predict(self, X) -> Prediction:
        return Prediction(-np.log(X[:, self.at]), X[:, self.at])

    def adapt(self, X, y):
        raise NotImplementedError

    def state(self):
        return {}

    def load_state(self, state) -> Self:
        return self


@pytest.mark.parametrize(
    ("better", "worse", "is_told"),
    [
        ({"bandwidth_gb_s": 4000.0}, {}, True),
        ({"bandwidth_gb_s": 4000.0, "sms": 160}, {}, True),
        ({}, {}, False),  # as fast
        ({"bandwidth_gb_s": 4000.0}, {"clock_mhz": 900.0}, False),
        ({"bandwidth_gb_s": 4000.0}, {"l2_bytes": 1_000_000}, False),
        ({"bandwidth_gb_s": 4000.0, "kind": "hip"}, {}, False),
    ],
)
@pytest.mark.parametrize("sms", [8, None])
def test_slower_on_a_device_that_is_worse_in_nothing_is_told(data, better, worse, is_told, sms) -> None:
    # Of which nothing tells how fast its SMs are, so that the model's own predictions count.
    known = structs.replace(LANDSCAPE_DEVICE, fp32_lanes_per_sm=1)
    assert known.bandwidth_gb_s < 4000.0
    new = structs.replace(known, name="new GPU", **better, **worse)
    model = train(data, SlowOnMoreMemory)
    foreign = [Candidate(each.workload, "test", each.config) for each in data.candidates[:3]]
    both = replace(model, metadata=structs.replace(model.metadata, devices=(known, HIP)))
    with pytest.warns(UnmeasuredDeviceWarning):
        found = both.predict(foreign, device=new, sms=sms)
    told = found["note"].str.endswith("predicted slower than on landscape GPU, which is better in nothing")
    assert told.tolist() == [is_told] * 3


@pytest.mark.parametrize(
    ("changes", "faster"),
    [({}, False), ({"clock_mhz": 2 * LANDSCAPE_DEVICE.clock_mhz}, True), ({"bandwidth_gb_s": 9e3}, False)],
)
def test_a_device_never_measured_is_carried_over_from_the_nearest(model, data, changes, faster) -> None:
    far = structs.replace(LANDSCAPE_DEVICE, name="far GPU", architecture="sm_75")
    known = replace(model, metadata=structs.replace(model.metadata, devices=(far, LANDSCAPE_DEVICE)))
    device = structs.replace(LANDSCAPE_DEVICE, name="new GPU", **changes)
    candidates = [each for each in data.candidates if each.workload.name == NEW]
    new, own = (
        known.predictions_of(candidates, [part_of(where, 64)] * len(candidates))["latency_s"]
        for where in (device, LANDSCAPE_DEVICE)
    )
    assert (new <= own * (1 + 1e-12)).all()
    assert (new < 0.9 * own).any() == faster
    with pytest.warns(UnmeasuredDeviceWarning):
        found = known.predict(NEW, device=device, kernels=data)
    assert found["note"].str.contains("carried over from landscape GPU").all()


@pytest.mark.parametrize("learner", ["kernel-ridge+intervals", "xgboost"])
def test_on_a_device_never_measured_no_kernel_is_slower_with_more_sms(data, learner) -> None:
    """Also where the budgets are asked for one by one, on the grid of budgets or off it."""
    model, device = train(data, learner, hold_out=[NEW]), find_device("RTX 4090")
    candidates = [each for each in data.candidates if each.workload.name == NEW]
    budgets = (*range(1, 12), 31, 32, 33, 100, 127, 128)
    apart = [model.predictions_of(candidates, [part_of(device, sms)] * len(candidates)) for sms in budgets]
    seconds = np.array([each["latency_s"] for each in apart])
    assert (np.diff(np.log(seconds), axis=0) < 1e-9).all()
    # The model itself does rise somewhere.
    X = [extract(candidates, [part_of(device, sms)] * len(candidates)).values for sms in budgets]
    raw = [model.model.predict(each).latency_s for each in X]
    assert (np.diff(np.log(raw), axis=0) > 0.01).any()
    for sms, each in zip(budgets, apart, strict=True):
        least = least_latency_s(candidates[0].workload, device, sms)
        np.testing.assert_allclose(np.maximum(np.exp(-each["rank_score"]), least), each["latency_s"])


@pytest.mark.parametrize("device", [find_device("RTX 4090"), LANDSCAPE_DEVICE])
def test_what_is_asked_for_beside_it_does_not_change_a_prediction(model, data, device) -> None:
    candidates = [each for each in data.candidates if each.workload.name == NEW]
    pairs = [
        (each, part_of(place, sms))
        for each in candidates[:4]
        for place in (device, find_device("H200"))
        for sms in (3, 8, 50, 128)
    ]
    together = model.predictions_of(*map(list, zip(*pairs, strict=True)))
    for i, (candidate, platform) in enumerate(pairs):
        alone = model.predictions_of([candidate], [platform])
        for name, values in together.items():
            np.testing.assert_allclose(
                alone[name], values[i], rtol=1e-9, err_msg=f"{name} of {platform.name}"
            )


def test_a_kernel_is_predicted_alike_whatever_kernels_stand_beside_it() -> None:
    """Kernels of two suites and one of ours; each alone has other columns than the three together."""
    foreign = [
        Candidate(Workload(f"suite.{kernel}", {"x": 64}, ""), "test", Config(decisions))
        for kernel in ("gemm", "stencil")
        for decisions in ({"block": 16, "layout": "row"}, {"block": 32, "layout": "col"})
    ]
    ours = gpu_landscape(workloads=WORKLOADS[:1], configs_per_workload=8, sms=(132,)).candidates[:1]
    every = [*foreign, *ours]
    table = extract(every, [landscape_platform(132)] * len(every))
    model = Model(FromScratch(), ModelMetadata(columns=tuple(column.name for column in table.columns)))
    for kernels in ([0], [2], [4], [0, 2], [1, 4], [3, 0], [0, 1, 4]):
        features = model.features([every[i] for i in kernels], [landscape_platform(132)] * len(kernels))
        np.testing.assert_array_equal(features, table.values[kernels])


@pytest.mark.parametrize("name", ["cuda.gemm-m64-n128-k256", "triton.gated_mlp-m64-n128-k256"])
def test_kernels_of_a_family_are_drawn_where_none_are_recorded(name: str) -> None:
    workload = Workload.parse(name)
    source = source_for(workload, "cuda", open_sources(SOURCES))
    expected = sample(source.space(workload, "cuda"), 5, seed=3)
    columns = extract(expected, [landscape_platform(132)] * 5).columns
    model = Model(
        FromScratch(), ModelMetadata(columns=tuple(c.name for c in columns), devices=(LANDSCAPE_DEVICE,))
    )
    found = model.predict(name, device=LANDSCAPE_DEVICE, n=5, seed=3)
    assert set(found["candidate_id"]) == {each.candidate_id for each in expected}
    with pytest.raises(CostModelError, match=r"suite.gemm-x64 must be something .* Give the kernels: "):
        model.predict("suite.gemm-x64", device=LANDSCAPE_DEVICE)


def test_a_call_of_the_library_that_nothing_describes_has_a_note() -> None:
    calls = [
        Candidate(Workload.parse(name), "library-1", Config({"call": "eager"}))
        for name in ("matmul-m64-n64-k64", "triton.gated_mlp-m64-n128-k256")
    ]
    columns = extract(calls, [landscape_platform(132)] * 2).columns
    model = Model(
        FromScratch(), ModelMetadata(columns=tuple(c.name for c in columns), devices=(LANDSCAPE_DEVICE,))
    )
    found = model.predict(calls, device=LANDSCAPE_DEVICE).set_index("candidate_id")
    assert [found["note"][call.candidate_id] for call in calls] == ["", "work unknown, so measure it"]


def test_kernels_of_another_kind_of_device_are_refused(model, data) -> None:
    with pytest.raises(CostModelError, match=r"kernels of cuda cannot run on AMD .*, which runs hip"):
        model.predict(NEW, device="MI250X", kernels=data)
    with pytest.raises(CostModelError, match="cannot run on"):
        model.predict(RECORDED, device="MI250X")


def test_a_kernel_that_needs_more_than_an_sm_has_is_refused_with_its_reason(model) -> None:
    tiles = {"tile.C.i": (2, 1, 16, 2, 1), "tile.C.j": (4, 1, 8, 1, 2), "tile.C.k": (8, 1, 8)}
    fetches = {"cooperative_fetch.A_shared": 4, "cooperative_fetch.B_shared": 1}
    small = {"sketch": 0, **tiles, **fetches, "unroll_explicit.root": 64}
    large = {**small, "tile.C.i": (1, 1, 16, 4, 1), "tile.C.j": (1, 1, 8, 8, 1), "tile.C.k": (1, 1, 64)}
    workload = Workload.parse("matmul-m64-n64-k64")
    kernels = [Candidate(workload, "metaschedule-cuda-1", Config(each)) for each in (large, small)]
    device = structs.replace(LANDSCAPE_DEVICE, shared_bytes_per_sm=16 * 1024)
    found = model.predict(kernels, device=device)
    assert found["candidate_id"].tolist() == [kernels[1].candidate_id, kernels[0].candidate_id]
    assert found["rank_score"].notna().tolist() == [True, False]
    assert "needs 32 KiB of shared memory, and an SM of landscape GPU has 16 KiB" in found["note"][1]
    with pytest.raises(CostModelError, match="None of 1 kernels can run: needs 32 KiB"):
        model.predict(kernels[:1], device=device)


def test_what_cannot_be_predicted_is_said(model, data) -> None:
    for arguments, message in (
        (([],), "at least one"),
        (("matmul-1",), "matmul-1"),
        (("matmul-m2-n2-k2",), "must hold candidates of matmul-m2-n2-k2"),
    ):
        with pytest.raises(CostModelError, match=message):
            model.predict(*arguments, kernels=data)
    with pytest.raises(CostModelError, match=r"costmodel devices list.*table \[device\]"):
        model.predict(NEW, device="Voodoo 2", kernels=data)
    nowhere = replace(model, metadata=structs.replace(model.metadata, devices=()))
    with pytest.raises(CostModelError, match="device must be named"):
        nowhere.predict(NEW, kernels=data)


def test_kernels_are_read_from_a_file_of_candidates(model, data, tmp_path) -> None:
    file = tmp_path / "kernels.jsonl"
    file.write_bytes(b"\n\n".join(msgspec.json.encode(each) for each in data.candidates))
    assert model.predict(NEW, kernels=file).equals(model.predict(NEW, kernels=data))
    with pytest.raises(CostModelError, match=rf"{file} must hold candidates of .* those of {NEW}, "):
        model.predict("matmul-m2-n2-k2", kernels=str(file))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CostModelError, match=rf"{file} must be a file with one candidate a line"):
        model.predict(NEW, kernels=file)
    with pytest.raises(CostModelError, match=r"Cannot read .*none\.jsonl: No such file"):
        model.predict(NEW, kernels=tmp_path / "none.jsonl")


def foreign(size: str, block: int) -> Measurement:
    """A kernel of which name, sizes and parameters are all that is known."""
    candidate = Candidate(Workload.parse(size), "table-1", Config({"block": block}))
    return structs.replace(fake_measurement(tile=block), candidate=candidate)


def test_a_foreign_kernel_of_a_new_size_has_the_configs_of_other_sizes(tmp_path) -> None:
    measured = [
        foreign(f"mine.{kernel}-m{m}-n8", block)
        for kernel, m, block in [
            ("copy", 64, 1),
            ("copy", 64, 4),
            ("copy", 256, 1),
            ("copy", 256, 4),
            ("sum", 64, 2),
        ]
    ]
    data = Dataset.of(Records.of(measured))
    model = train(data, "kernel-ridge")
    found = model.predict("mine.copy-m128-n8", sms=8, kernels=data)
    assert sorted(config["block"] for config in found["config"]) == [1, 4]
    assert "note" not in found
    for beyond in ("mine.copy-m512-n8", "mine.copy-m32-n8", "mine.copy-m64-n9"):
        far = model.predict(beyond, sms=8, kernels=data)
        assert set(far["note"]) == {"sizes beyond those learned from"}
    assert set(model.predict("mine.copy-m64-n8", sms=9, kernels=data)["note"]) == {
        "SMs beyond those learned from"
    }
    for unlike in ("mine.copy-m128", "mine.move-m128-n8"):
        with pytest.raises(CostModelError, match=rf"must hold candidates of {unlike}, but it has those of "):
            model.predict(unlike, kernels=data)

    file = tmp_path / "kernels.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, data.candidates)))
    assert model.predict("mine.copy-m128-n8", sms=8, kernels=file).equals(found)
    # What is launched depends on the size.
    launched = structs.replace(measured[0].candidate, launches=(KernelLaunch(1, 32),))
    file.write_bytes(b"\n".join(map(msgspec.json.encode, [*data.candidates, launched])))
    with pytest.raises(CostModelError, match=r"must hold candidates of mine\.copy-m128-n8"):
        model.predict("mine.copy-m128-n8", kernels=file)


def test_configs_are_drawn_for_a_workload_that_nobody_recorded() -> None:
    pytest.importorskip("tvm")
    model = train("h100-sm-budgets", "ridge", hold_out=[RECORDED])
    found = model.predict("matmul-m24-n512-k96", sms=32, n=5, seed=1)
    again = model.predict("matmul-m24-n512-k96", sms=32, n=5, seed=1)
    assert len(found) == 5
    assert found.equals(again)
    assert found["latency_s"].between(1e-7, 1e-2).all()
    assert len(model.predict(RECORDED, sms=32)) > 100  # recorded in the dataset that ships


def test_a_device_is_read_from_a_table_of_its_own(tmp_path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[device]\nname = "mine"\nkind = "cuda"\narchitecture = ""\nsms = 20\nclock_mhz = 1500\n')
    assert read_device(file) == Device("mine", "cuda", "", 20, 1500.0)
    for text, message in (
        ("[devise]", r"it lacks name, kind"),
        ('[device]\nname = "mine"', r"table \[device\].*kind"),
        (file.read_text().replace("20", "0"), r"\[device\] must have sms and clock_mhz above 0"),
        ("device", r"must be a TOML file with a table \[device\]"),
    ):
        file.write_text(text)
        with pytest.raises(CostModelError, match=message):
            read_device(file)
    with pytest.raises(CostModelError, match="Cannot read"):
        read_device(tmp_path / "missing")


def test_the_former_name_of_the_models_order_still_reads(model, data) -> None:
    found = model.predict(NEW, sms=8, kernels=data)
    with pytest.warns(DeprecationWarning, match='now called "rank_score"'):
        former = found.head(3)["score"]
    assert former.equals(found["rank_score"].head(3))
    with pytest.warns(DeprecationWarning, match='now called "rank_score"'):
        several = found[["sms", "score"]]
    assert several.equals(found[["sms", "rank_score"]])
    with pytest.warns(DeprecationWarning, match='now called "rank_score"'):
        assert found.sort_values("score").equals(found.sort_values("rank_score"))
    with pytest.warns(DeprecationWarning, match='now called "rank_score"'):
        assert found.score.equals(found["rank_score"])
    with pytest.raises(KeyError):
        found["misspelt"]


class Instant(StorableModel):
    """Believes every kernel to take a picosecond, within a factor of two."""

    def fit(self, X, y, task_ids) -> Self:
        return self

    def predict(self, X) -> Prediction:
        latency_s = np.full(len(X), 1e-12)
        return Prediction(np.arange(len(X), dtype=np.float64), latency_s, latency_s / 2, latency_s * 2)

    def adapt(self, X, y):
        return self

    def state(self):
        return {}

    def load_state(self, state) -> Self:
        return self


def instant(device: Device) -> tuple[Model, list[Candidate]]:
    landscape = gpu_landscape(workloads=["matmul-m512-n512-k512"], configs_per_workload=4, sms=(8,))
    large = Workload.parse("matmul-m65536-n2048-k8192")
    candidates = [structs.replace(each, workload=large) for each in landscape.candidates]
    columns = tuple(column.name for column in extract(candidates[:1], [part_of(device, None)]).columns)
    return Model(Instant(), ModelMetadata(columns=columns, devices=(device,))), candidates


@pytest.mark.parametrize("name", ["H100 SXM", "A100 SXM 40GB", "Tesla T4"])
@pytest.mark.parametrize("measured", [True, False])
def test_no_prediction_is_faster_than_the_arithmetic_allows(name, measured) -> None:
    device = find_device(name)
    model, candidates = instant(device if measured else LANDSCAPE_DEVICE)
    seconds = []
    for sms in (8, device.sms // 2, device.sms):
        parts = [part_of(device, sms)] * len(candidates)
        found = model.predictions_of(candidates, parts)
        # Two operations a lane and clock, for each product of m x n x k.
        flops_per_s = 2 * device.fp32_lanes_per_sm * sms * device.clock_mhz * 1e6
        least = 2 * 65536 * 2048 * 8192 / flops_per_s
        for column in ("latency_s", "low_s", "high_s"):
            np.testing.assert_allclose(found[column], least)
        seconds.append(least)
    assert seconds == sorted(seconds, reverse=True)


def test_no_prediction_is_faster_than_the_memory_allows_on_made_up_devices_too() -> None:
    device = find_device("H100 SXM")
    model, candidates = instant(device)
    slow = hypothetical(device, bandwidth_gb_s=1.0)
    found = model.predictions_of(candidates, [part_of(slow, None)] * len(candidates))
    moved = 4 * (65536 * 8192 + 8192 * 2048 + 65536 * 2048)
    assert (found["low_s"] >= (1 - 1e-12) * moved / 1e9).all()
    assert (found["low_s"] <= found["latency_s"]).all()
    assert (found["latency_s"] <= found["high_s"]).all()


def test_floors_leave_the_order_of_kernels_as_it_was() -> None:
    model, candidates = instant(find_device("H100 SXM"))
    found = model.predict(candidates, sms=8)
    assert found["candidate_id"].tolist() == [each.candidate_id for each in reversed(candidates)]
