import numpy as np
import pytest

from costmodel.features import extract
from costmodel.testing import gpu_landscape
from costmodel.transfer import LearningRows, make_model


def test_learning_rows_are_those_of_the_dataset_and_a_fit_uses_the_ones_asked_for() -> None:
    dataset = gpu_landscape(seed=1, configs_per_workload=20, sms=(32, 132))
    data = LearningRows.of(dataset)
    assert data.task_ids.tolist() == dataset.rows["task"].tolist()
    np.testing.assert_array_equal(data.latency_s, dataset.rows["latency_s"])
    last = dataset.rows.iloc[-1]
    alone = extract([dataset.candidates[last["candidate"]]], [dataset.platforms[last["platform"]]])
    np.testing.assert_array_equal(data.table.values[-1:, : alone.values.shape[1]], alone.values)

    at = np.flatnonzero((dataset.rows["sms_granted"] == 32).to_numpy())
    fitted = data.fit(make_model("ridge", data.table.columns), at)
    expected = make_model("ridge", data.table.columns).fit(
        data.table.values[at], data.latency_s[at], data.task_ids[at]
    )
    np.testing.assert_array_equal(
        fitted.predict(data.table.values).score, expected.predict(data.table.values).score
    )


@pytest.mark.parametrize("learner", ["consensus", "random-forest+intervals", "xgboost-rank"])
def test_rows_are_described_and_predicted_some_at_a_time(learner: str) -> None:
    dataset = gpu_landscape(seed=1, configs_per_workload=20, sms=(32, 132))
    data, in_chunks = LearningRows.of(dataset), LearningRows.of(dataset, at_once=7)
    np.testing.assert_array_equal(in_chunks.table.values, data.table.values)
    model = data.fit(make_model(learner, data.features.columns), np.arange(0, len(data.rows), 2))
    at = np.arange(1, len(data.rows), 2)
    whole, parts = data.predict(model, at), data.predict(model, at, at_once=7)
    np.testing.assert_array_equal(parts.score, whole.score)
    for name in ("latency_s", "low_s", "high_s"):
        ends, expected = getattr(parts, name), getattr(whole, name)
        assert (ends is None) == (expected is None)
        if expected is not None:
            np.testing.assert_allclose(ends, expected, rtol=1e-12)
    assert (whole.low_s is None) == ("intervals" not in learner)
