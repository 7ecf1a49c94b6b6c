import numpy as np

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
