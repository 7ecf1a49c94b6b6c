"""How alike devices are: against SciPy, on planted twins, and on the data that the thresholds are from."""

from pathlib import Path

import numpy as np
import pytest
from fake_devices import dataset_of, measured_on
from fake_records import WORKLOADS
from scipy.stats import spearmanr

from costmodel.dataset import load_dataset
from costmodel.dataset.splits._similarity import DeviceSimilarity, device_similarity, twin_groups
from costmodel.dataset.table._read import dataset_from_measurements

pytestmark = pytest.mark.white_box

TILES = range(1, 13)


def random_latencies(seed: int = 0, devices: str = "ABC", workloads=WORKLOADS[:2], budgets=(8, 132)) -> dict:
    rng = np.random.default_rng(seed)
    keys = [(d, w, t, s) for d in devices for w in workloads for t in TILES for s in budgets]
    # Rounded, so that some are tied.
    return {key: float(np.round(rng.lognormal(), 1) + 0.1) * 1e-3 for key in keys}


def expected(latencies: dict, a: str, b: str) -> tuple[float, float, int]:
    """Medians over tasks of rho, by SciPy, and of the deviation, and the number of tasks."""
    rhos, deviations = [], []
    for workload, sms in sorted({(w, s) for _, w, _, s in latencies}):
        both = [
            pair
            for t in TILES
            if None not in (pair := [latencies.get((d, workload, t, sms)) for d in (a, b)])
        ]
        if len(both) >= 8:
            x, y = np.array(both).T
            ratio = np.log(x / y)
            rhos.append(spearmanr(x, y).statistic)
            deviations.append(np.median(abs(ratio - np.median(ratio))))
    return float(np.median(rhos)), float(np.median(deviations)), len(rhos)


@pytest.mark.parametrize("seed", range(5))
def test_medians_over_tasks_agree_with_scipy(seed: int) -> None:
    latencies = random_latencies(seed)
    rng = np.random.default_rng(seed)
    for key in list(latencies):
        fate = rng.uniform()
        if fate < 0.1:
            latencies[key] = None
        elif fate < 0.2:
            del latencies[key]
    found = device_similarity(dataset_of(latencies))
    assert found.devices == ("A", "B", "C")
    for i, j in ((0, 1), (0, 2), (1, 2)):
        rho, deviation, tasks = expected(latencies, found.devices[i], found.devices[j])
        assert found.rho[i, j] == pytest.approx(rho)
        assert found.deviation[i, j] == pytest.approx(deviation)
        assert found.tasks[i, j] == tasks
    for matrix in (found.rho, found.deviation, found.tasks):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diag(found.rho) == 1).all()
    assert (np.diag(found.deviation) == 0).all()


def test_nothing_shared_is_nan_and_no_twin() -> None:
    few = {("A", WORKLOADS[0], t, 8): 1e-3 * t for t in range(1, 8)}
    few |= {("B", *key[1:]): value for key, value in few.items()}
    other_part = random_latencies(devices="A", budgets=(8,)) | random_latencies(devices="B", budgets=(16,))
    failing = random_latencies(devices="A") | dict.fromkeys(random_latencies(devices="B"), None)
    for latencies in (few, other_part, failing):
        found = device_similarity(dataset_of(latencies))
        assert np.isnan(found.rho[0, 1])
        assert np.isnan(found.deviation[0, 1])
        assert found.tasks[0, 1] == 0
        assert (found.rho[1, 1], found.devices) == (1, ("A", "B"))
        assert twin_groups(found) == ()


def test_a_device_where_all_is_equally_fast_ranks_nothing() -> None:
    same = dict.fromkeys(random_latencies(devices="B"), 1e-3)
    found = device_similarity(dataset_of(random_latencies(devices="A") | same))
    assert np.isnan(found.rho[0, 1])
    assert found.tasks[0, 1] == 4
    assert twin_groups(found) == ()


def test_a_faster_copy_is_a_twin_whatever_its_factor_in_each_workload() -> None:
    latencies = random_latencies(devices="AC")
    factors = dict(zip(WORKLOADS, (0.5, 3.0, 1.0), strict=True))
    rng = np.random.default_rng(1)
    for (device, *rest), value in list(latencies.items()):
        if device == "A":
            latencies["B", *rest] = value * factors[rest[0]] * rng.lognormal(sigma=0.003)
    assert twin_groups(device_similarity(dataset_of(latencies))) == (("A", "B"),)


def test_agreement_on_one_kernel_of_two_is_not_enough() -> None:
    latencies = random_latencies(devices="AB")
    for (device, workload, *rest), value in list(latencies.items()):
        if device == "A" and workload == WORKLOADS[0]:
            latencies["B", workload, *rest] = value
    found = device_similarity(dataset_of(latencies))
    assert found.rho[0, 1] > 0.4
    assert twin_groups(found) == ()
    only = {key: value for key, value in latencies.items() if key[1] == WORKLOADS[0]}
    assert twin_groups(device_similarity(dataset_of(only))) == (("A", "B"),)


def test_wholes_compare_whatever_their_sms_and_parts_by_their_sms() -> None:
    def pair(sms_a: int, whole_a: int, sms_b: int, whole_b: int) -> DeviceSimilarity:
        return device_similarity(
            dataset_from_measurements(
                measured_on(name, tile=tile, sms=sms, whole_sms=whole, latency_s=1e-3 * tile)
                for tile in TILES
                for name, sms, whole in (("A", sms_a, whole_a), ("B", sms_b, whole_b))
            )
        )

    assert pair(132, 132, 72, 72).rho[0, 1] == pytest.approx(1)
    assert pair(8, 132, 8, 72).rho[0, 1] == pytest.approx(1)
    assert np.isnan(pair(72, 132, 72, 72).rho[0, 1])
    assert np.isnan(pair(16, 132, 8, 132).rho[0, 1])


def test_groups_are_reached_through_others_and_thresholds_count() -> None:
    rho = np.full((5, 5), 0.5)
    for i, j in ((0, 2), (2, 4)):
        rho[i, j] = rho[j, i] = 0.99
    np.fill_diagonal(rho, 1)
    similarity = DeviceSimilarity(tuple("ABCDE"), rho, np.zeros((5, 5)), np.full((5, 5), 3))
    assert twin_groups(similarity) == (("A", "C", "E"),)
    assert twin_groups(similarity, least_rho=0.995) == ()
    assert twin_groups(similarity, least_rho=0.4) == (("A", "B", "C", "D", "E"),)
    far = DeviceSimilarity(similarity.devices, rho, np.full((5, 5), 0.03), similarity.tasks)
    assert twin_groups(far) == ()
    assert twin_groups(far, most_deviation=0.03) == (("A", "C", "E"),)


def test_no_order_of_records_matters() -> None:
    latencies = random_latencies()
    backwards = dict(reversed(latencies.items()))
    one, other = (device_similarity(dataset_of(each)) for each in (latencies, backwards))
    assert one.devices == other.devices
    np.testing.assert_allclose(one.rho, other.rho)
    np.testing.assert_allclose(one.deviation, other.deviation)


SM_BUDGETS = Path(__file__).parents[2] / "datasets" / "sm-budgets"


@pytest.mark.skipif(not SM_BUDGETS.is_dir(), reason="the dataset sm-budgets is not here")
def test_h100_and_h200_are_twins() -> None:
    found = device_similarity(load_dataset(SM_BUDGETS))
    assert twin_groups(found) == (("NVIDIA H100 80GB HBM3", "NVIDIA H200"),)
    assert found.rho[0, 1] > 0.995
    assert found.deviation[0, 1] < 0.01
