"""Networks that others published: formulas around them by hand, and what they learn of small questions."""

import numpy as np
import pandas as pd
import pytest

from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._diode import Diode
from costmodel.benchmark.entries._networks import one_thread, perceptron
from costmodel.benchmark.entries._neusight import NeuSight, _ideal_s, symmetric_error, utilisation
from costmodel.columns import Column

pytestmark = pytest.mark.white_box
torch = pytest.importorskip("torch")


def ask(name: str, latency_s: np.ndarray, features: dict[str, np.ndarray]) -> BenchQuestion:
    """A question that asks for every fourth row."""
    is_asked = np.arange(len(latency_s)) % 4 == 3
    rows = pd.DataFrame(
        {
            "role": np.where(is_asked, "asked", "known"),
            "kind": "matmul",
            "latency_s": np.where(is_asked, np.nan, latency_s),
        }
    )
    columns = tuple(Column(each, "1", "launch") for each in features)
    return BenchQuestion(name, rows, np.column_stack([*features.values()]), columns)


def test_utilisation_falls_with_few_waves() -> None:
    output = torch.tensor([[0.0, 0.0], [0.0, 0.0], [-30.0, 0.0], [30.0, 0.0]])
    found = utilisation(output, torch.tensor([1.0, 2.0, 1.0, 4.0]))
    assert found.tolist() == pytest.approx([0.25, 0.375, 0.5, 0.375])


def test_the_loss_is_the_symmetric_relative_error() -> None:
    output = torch.tensor([[-30.0, 0.0]])  # a utilisation of a half: twice the ideal time
    found = symmetric_error(output, torch.zeros(1), torch.ones(1))
    assert float(found) == pytest.approx((2 - 1) / (2 + 1), rel=1e-5)


def test_ideal_seconds_are_those_of_whole_waves_with_padding() -> None:
    features = {
        "log2_roofline_s": np.full(4, -10.0),
        "log2_waves": np.full(4, 2.0),
        "log2_fractional_waves": np.log2(np.full(4, 3.0)),
        "log2_extra_flops": np.full(4, 1.0),
    }
    assert _ideal_s(ask("operators", np.ones(4), features)) == pytest.approx(2**-10 * 4 / 3 * 2)


def test_neusight_learns_how_busy_waves_keep_a_gpu() -> None:
    rng = np.random.default_rng(0)
    waves, size = rng.integers(1, 9, 400).astype(float), rng.uniform(-2.0, 2.0, 400)
    ideal = np.exp2(-14.0 + size)
    names = (
        "log2_sms_granted", "device_share", "log2_flops", "log2_blocks", "log2_global_bytes",
        "log2_peak_flops", "log2_bandwidth", "log2_l2",
    )  # fmt: skip
    features = {
        **{name: np.ones(400) for name in names},
        "log2_extra_flops": np.zeros(400),
        "log2_roofline_s": np.log2(ideal),
        "log2_waves": np.log2(waves),
        "log2_fractional_waves": np.log2(waves),
    }
    latency_s = ideal / (0.8 - 0.5 / waves)
    question = ask("operators", latency_s, features)
    first, second = (NeuSight(steps=300).answer(question, seed=1) for _ in range(2))
    assert np.array_equal(first.score, second.score)
    error = np.abs(np.log(first.latency_s / latency_s[question.asked]))
    assert np.median(error) < 0.05
    assert np.median(np.abs(np.log(ideal / latency_s)[question.asked])) > 0.2


def test_diode_learns_log_seconds_of_sizes_and_parameters() -> None:
    rng = np.random.default_rng(0)
    names = (
        "log_m", "log_n", "log_k", "log_batch", "log_sms", "log_intensity", "block_m", "block_n", "block_k",
        "stages", "warps", "group_m", "splits", "dtype", "kind", "a_t", "b_t", "epilogue",
    )  # fmt: skip
    features = {f"product/{name}": rng.integers(0, 4, 1200).astype(float) for name in names}
    log_s = features["product/log_m"] + features["product/block_m"] * (features["product/kind"] == 1) - 12
    question = ask("products", np.exp(log_s), features)
    assert Diode().can_answer(question)
    found = Diode(steps=300).answer(question)
    assert np.median(np.abs(np.log(found.latency_s) - log_s[question.asked])) < 0.3  # of a spread of 1.4


def test_torch_draws_and_counts_threads_outside_as_before() -> None:
    torch.manual_seed(5)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(5)
    with one_thread(1):
        first = perceptron([2, 3, 1])(torch.ones(1, 2))
        assert torch.get_num_threads() == 1
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
    with one_thread(1):
        assert torch.equal(perceptron([2, 3, 1])(torch.ones(1, 2)), first)
