import numpy as np
import pytest

from costmodel.learners._metrics import budget_gap_error
from costmodel.testing import LANDSCAPE_SMS, gpu_landscape, landscape_latency

pytestmark = pytest.mark.white_box


@pytest.fixture(scope="module")
def landscape():
    return gpu_landscape(configs_per_workload=24)


def test_same_arguments_give_the_same_landscape() -> None:
    first, second, other = (gpu_landscape(seed, ["matmul-m64-n64-k64"], 4, (8, 132)) for seed in (1, 1, 2))
    assert first.candidates == second.candidates
    assert first.measurements["latency_s"].tolist() == second.measurements["latency_s"].tolist()
    assert first.candidates != other.candidates


def test_best_config_changes_with_the_budget(landscape) -> None:
    gaps = []
    for _, group in landscape.rows.groupby("workload"):
        table = group.pivot_table(index="candidate", columns="sms_granted", values="latency_s")
        choice = int(table[132].to_numpy().argmin())
        gaps.append([budget_gap_error(table[sms].to_numpy(), choice) for sms in LANDSCAPE_SMS])
    mean = np.mean(gaps, axis=0)
    assert mean[0] > 0.1
    assert mean[0] > mean[4] > mean[-1] == 0.0


def test_latencies_are_those_of_small_kernels(landscape) -> None:
    latency = landscape.rows["latency_s"].to_numpy()
    ran = np.isfinite(latency)
    assert 0.9 < ran.mean() < 1.0
    assert 2e-6 < latency[ran].min() < 1e-5
    assert latency[ran].max() < 1e-2


def test_more_sms_are_never_slower_before_noise(landscape) -> None:
    for candidate in landscape.candidates[::10]:
        times = [landscape_latency(candidate, platform) for platform in landscape.platforms]
        assert times == sorted(times, reverse=True)


def test_tiles_multiply_to_the_loop(landscape) -> None:
    for candidate in landscape.candidates:
        decisions, dims = candidate.config.decisions, candidate.workload.dims
        assert [np.prod(decisions[f"tile.C.{axis}"]) for axis in "ijk"] == [dims["m"], dims["n"], dims["k"]]


def test_more_configs_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"must hold 2 configs .* only 0"):
        gpu_landscape(workloads=["matmul-m4-n4-k1"], configs_per_workload=2, sms=(8,))
