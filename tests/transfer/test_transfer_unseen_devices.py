"""Intervals for devices that nothing was learned from."""

import gzip
import json

import numpy as np
import pytest
from msgspec import structs
from public_data import KERNEL_TUNER, needs_public_data

from costmodel.dataset import Dataset
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.learners import KernelRidge, RidgeLearner
from costmodel.records import Workload
from costmodel.records._peak_rates import least_latency_s
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.models._unseen_devices import UnseenDevices
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")
DEVICE, ARCHITECTURE = (1, 2), (2,)


def fleet(devices: int, seed: int, workloads: int = 10):
    """Rows of workloads (column 0) on devices (column 1), each of an architecture (column 2) of its own.

    No column tells how fast an architecture is; column 3 is the config.
    """
    rng = np.random.default_rng(seed)
    device, workload, config = (
        axis.ravel() for axis in np.meshgrid(np.arange(devices), np.arange(workloads), np.arange(8))
    )
    traits = rng.normal(size=(devices, 2))
    speed = 0.5 * rng.normal(size=devices)
    X = np.column_stack([rng.normal(size=workloads)[workload], traits[device], config]).astype(float)
    noise = 0.05 * rng.normal(size=len(X))
    return (
        X,
        1e-5 * np.exp(X[:, 0] + 0.1 * config + speed[device] + noise),
        device * workloads + workload,
        device,
    )


def test_a_new_device_is_as_strange_as_those_that_were_left_out() -> None:
    def coverage(seed: int, *columns: tuple[int, ...]) -> float:
        X, y, tasks, device = fleet(9, seed, workloads=5)
        known = device < 8
        model = Conformal(Residual(RidgeLearner()), (0,), (), *columns, folds=2, rehearsals=0)
        found = model.fit(X[known], y[known], tasks[known]).predict(X[~known])
        return float(((found.low_s <= y[~known]) & (y[~known] <= found.high_s)).mean())

    # Of 9 equally strange devices the new one is the strangest at either end in 2 of 9 cases.
    assert np.mean([coverage(seed, DEVICE, ARCHITECTURE) for seed in range(200)]) > 7 / 9
    assert np.mean([coverage(seed) for seed in range(50)]) < 0.6


def test_what_was_learned_from_keeps_its_intervals() -> None:
    X, y, tasks, _ = fleet(4, 0)
    plain, calibrated = (
        Conformal(Residual(RidgeLearner()), (0,), (), *columns, folds=5, rehearsals=4).fit(X, y, tasks)
        for columns in ((), (DEVICE, ARCHITECTURE))
    )
    np.testing.assert_array_equal(plain.predict(X).high_s, calibrated.predict(X).high_s)
    assert calibrated.promises(X).all()


def test_twins_of_one_architecture_tell_nothing_of_another() -> None:
    X, y, tasks, _ = fleet(2, 0)
    X[:, 2] = 1.0
    model = Conformal(Residual(RidgeLearner()), (0,), (), DEVICE, ARCHITECTURE, folds=5, rehearsals=4)
    model.fit(X, y, tasks)
    other = X + np.array([0.0, 1.0, 0.0, 0.0])
    assert model.promises(X).all()
    assert not model.promises(other).any()


def test_devices_of_which_the_same_is_unknown_are_of_one_architecture() -> None:
    """As CPUs, which have no shared memory."""
    X, y, tasks, _ = fleet(2, 0)
    X[:, 2] = np.nan
    assert UnseenDevices(DEVICE, ARCHITECTURE).fit(Residual(RidgeLearner()), X, y, tasks).quantiles_ is None


def test_devices_are_known_again_with_what_is_unknown_of_them() -> None:
    X = np.array([[0.0, 1.0, np.nan], [0.0, 2.0, 3.0]])
    found = UnseenDevices((1, 2), (2,)).fit(Residual(RidgeLearner()), X, np.ones(2), np.arange(2))
    assert found.are_of(np.vstack([X, [[0.0, 1.0, 3.0]]])).tolist() == [False, False, True]
    assert not UnseenDevices().fit(Residual(RidgeLearner()), X, np.ones(2), np.arange(2)).are_of(X).any()


def on(device, data: Dataset) -> list:
    """The measurements of a landscape as if another device had made them, twice as slow."""
    return [
        structs.replace(
            each,
            platform=structs.replace(each.platform, device=device),
            latencies_s=tuple(2 * latency for latency in each.latencies_s),
        )
        for each in data.to_measurements()
    ]


def test_a_model_gives_an_unseen_device_an_interval_only_where_it_knows_architectures() -> None:
    data = gpu_landscape(workloads=WORKLOADS, configs_per_workload=10, sms=(8, 132))
    other = structs.replace(LANDSCAPE_DEVICE, name="other", shared_bytes_per_sm=100_000, bandwidth_gb_s=900.0)
    third = structs.replace(other, name="third", bandwidth_gb_s=1200.0)
    both = dataset_from_measurements([*data.to_measurements(), *on(other, data)])
    one, two = (train(each, "ridge+intervals") for each in (data, both))
    with pytest.warns(UnmeasuredDeviceWarning, match="third"):
        alone = one.predict(WORKLOADS[0], device=third, kernels=data)
    with pytest.warns(UnmeasuredDeviceWarning, match="third"):
        calibrated = two.predict(WORKLOADS[0], device=third, sms=[8, 64, 132], kernels=data)
    assert not {"low_s", "high_s"} & set(alone)
    assert "latency_s" in alone
    assert (calibrated["low_s"] < calibrated["high_s"]).all()
    # As wide for every kernel and every number of SMs, but where the hardware allows no shorter latency.
    least = [least_latency_s(Workload.parse(WORKLOADS[0]), third, sms) for sms in calibrated["sms"]]
    free = calibrated["low_s"] > least
    assert free.any()
    assert np.ptp(np.log(calibrated["high_s"] / calibrated["low_s"])[free]) < 1e-9
    known = two.predict(WORKLOADS[0], device=other, kernels=data)
    assert np.ptp(np.log(known["high_s"] / known["low_s"])) > 0.1


def gpus(kernel: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each GPU 250 configs of a kernel, behind log2 of what the GPU is, and their seconds."""
    files = sorted((KERNEL_TUNER / "hub" / kernel).glob("*.json.gz"))
    table = (KERNEL_TUNER.parent / "devices" / "devices_used_in_baselines.csv").read_text().splitlines()
    names, *lines = (line.split(",") for line in table)
    facts = {row["key"]: row for row in (dict(zip(names, line, strict=False)) for line in lines)}
    found = {}
    for file in files:
        document, name = json.loads(gzip.decompress(file.read_bytes())), file.name.split(".")[0]
        entries = list(document["cache"].values())
        gpu = [np.log2(float(facts[name][fact])) for fact in ("sm", "clock_mhz", "bw_gbs", "fp32_gflops")]
        drawn = [entries[i] for i in np.random.default_rng(0).permutation(len(entries))[:250]]
        X = [[*gpu, *(float(entry[key]) for key in document["tune_params_keys"])] for entry in drawn]
        found[name] = np.array(X), np.array([seconds_of(entry) for entry in drawn])
    return found


def seconds_of(entry) -> float:
    """The median; HIP entries hold [0, ms] pairs, and a failed config a text."""
    if isinstance(entry["time"], str):
        return float("inf")
    return 1e-3 * float(np.median([t[1] if isinstance(t, list) else t for t in entry["times"]]))


@needs_public_data
def test_intervals_of_gpus_never_measured_are_neither_blind_nor_endless() -> None:
    inside, width = [], []
    for kernel in ("convolution_milo", "dedispersion_milo"):
        rows = gpus(kernel)
        for held_out in rows:
            sources = [name for name in rows if name != held_out]
            X, y = (np.concatenate([rows[name][part] for name in sources]) for part in (0, 1))
            model = Conformal(
                Residual(KernelRidge()), (), (), (0, 1, 2, 3), (0, 1, 2, 3), folds=4, rehearsals=4
            )
            model.fit(X, y, np.repeat(sources, [len(rows[name][1]) for name in sources]))
            found, truth = model.predict(rows[held_out][0]), rows[held_out][1]
            ran = np.isfinite(truth)
            inside.append(float(((found.low_s <= truth) & (truth <= found.high_s))[ran].mean()))
            width.append(float((found.high_s / found.low_s).max()))
    # By workloads alone: .05 to 1 within, .72 on average, and up to 1e15 wide.
    assert np.mean(inside) > 0.85, inside
    assert max(width) < 3000, width


def test_of_several_devices_of_a_name_the_one_that_ships_measured_is_meant() -> None:
    assert device_named("h100", ()).name == "NVIDIA H100 80GB HBM3"
    assert device_named("H100 PCIe", ()).name == "NVIDIA H100 PCIe"
    other = structs.replace(LANDSCAPE_DEVICE, name="NVIDIA H100 PCIe")
    assert device_named("h100", [other]) == other  # what was learned from comes first
