import builtins

import numpy as np
import pytest

from costmodel.errors import MissingExtraError
from costmodel.learners import MultitaskNetwork, RidgeLearner, prepare
from costmodel.testing import contract_rows


@pytest.fixture
def budgets():
    """300 configs on three platforms (column 0), one of which slows one kind of config (column 1) alone."""
    rng = np.random.default_rng(0)
    platform = np.repeat([0.0, 1.0, 2.0], 300)
    X = np.column_stack([platform, rng.normal(size=(900, 3))])
    y = np.exp(0.5 * X[:, 1] + 0.3 * X[:, 2] ** 2 + 0.4 * platform + (platform == 2.0) * X[:, 3])
    return X, y, platform


@pytest.fixture
def without_torch(monkeypatch):
    real_import = builtins.__import__

    def fake_import(name, *args, **kwargs):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    return lambda: monkeypatch.setattr(builtins, "__import__", fake_import)


@pytest.mark.torch
def test_predictions_are_those_of_torch_modules(budgets) -> None:
    import torch

    X, y, tasks = budgets
    learner = MultitaskNetwork((0,), 1, width=16, layers=2, embedding=3, steps=20, members=2).fit(X, y, tasks)
    queries = X[::7].copy()
    queries[:20, 0] = 0.5  # a platform never seen
    inputs = torch.from_numpy(learner.scaler_.transform(queries))
    # The order in which platforms are numbered is none of the network's business.
    number = {row[0]: i + 1 for i, row in enumerate(learner.platforms_)}
    platform = torch.tensor([number.get(value, 0) for value in queries[:, 0]])
    outputs = []
    for weights in learner.networks_:
        first, second, last = (
            torch.nn.Linear(*weights[f"weight {i}"].shape, dtype=torch.float64) for i in range(3)
        )
        embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(weights["embedding"]), padding_idx=0)
        with torch.no_grad():
            for i, layer in enumerate((first, second, last)):
                layer.weight.copy_(torch.from_numpy(weights[f"weight {i}"].T))
                layer.bias.copy_(torch.from_numpy(weights[f"bias {i}"]))
            entering = first(inputs) + embedding(platform) @ torch.from_numpy(weights["platform"])
            rest = torch.nn.Sequential(torch.nn.SiLU(), second, torch.nn.SiLU(), last)
            outputs.append(rest(entering)[:, 0].numpy())
    expected = learner.mean_ + learner.scale_ * np.mean(outputs, axis=0) + queries[:, 1] * np.log(2.0)
    np.testing.assert_allclose(np.log(learner.predict(queries).latency_s), expected, rtol=1e-9)


@pytest.mark.torch
def test_it_learns_latency_on_known_platforms(budgets) -> None:
    X, y, tasks = budgets
    known = np.random.default_rng(1).random(len(X)) < 0.7
    learner = MultitaskNetwork((0,), width=32, steps=300, members=1).fit(X[known], y[known], tasks[known])
    linear = RidgeLearner().fit(X[known], y[known], tasks[known])
    errors = [np.log(one.predict(X[~known]).latency_s / y[~known]).std() for one in (learner, linear)]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.torch
def test_runs_of_different_seeds_share_no_network(budgets) -> None:
    X, y, tasks = budgets
    runs = [MultitaskNetwork(width=8, steps=2, members=2, seed=seed).fit(X, y, tasks) for seed in (0, 1)]
    biases = [tuple(network["bias 0"]) for run in runs for network in run.networks_]
    assert len(set(biases)) == 4


@pytest.mark.torch
def test_unknown_platforms_have_the_zero_embedding(budgets) -> None:
    X, y, tasks = budgets
    learner = MultitaskNetwork((0,), width=8, steps=30, members=1).fit(X, y, tasks)
    embedding = learner.networks_[0]["embedding"]
    assert embedding.shape == (4, 8)
    assert (embedding[0] == 0.0).all()
    assert (np.abs(embedding[1:]).sum(axis=1) > 0.0).all()
    assert learner._platform_of(np.array([[7.0, 0, 0, 0], [np.nan, 0, 0, 0]])).tolist() == [0, 0]
    assert sorted(learner._platform_of(X[[0, 300, 600]])) == [1, 2, 3]


@pytest.mark.torch
def test_the_same_seed_gives_the_same_network_and_another_another(budgets) -> None:
    X, y, tasks = budgets
    scores = [
        MultitaskNetwork((0,), width=8, steps=10, seed=seed).fit(X, y, tasks).predict(X).score
        for seed in (0, 0, 5)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


@pytest.mark.torch
def test_fit_needs_torch_and_prediction_does_not(budgets, without_torch) -> None:
    X, y, tasks = budgets
    learner = MultitaskNetwork((0,), width=8, steps=5).fit(X, y, tasks)
    expected = learner.predict(X).score
    without_torch()
    loaded = MultitaskNetwork((0,), width=8, steps=5).load_state(learner.state())
    np.testing.assert_array_equal(loaded.predict(X).score, expected)
    with pytest.raises(MissingExtraError, match=r"\[torch\]"):
        MultitaskNetwork().fit(X, y, tasks)


@pytest.mark.torch
def test_failures_count_as_slow_as_the_lowest_score() -> None:
    X, y, tasks = contract_rows()
    learner = MultitaskNetwork(steps=5, width=4, members=1).fit(X, y, tasks)
    assert learner.mean_ == pytest.approx(prepare(X, y, tasks).clipped_log_latency.mean())
