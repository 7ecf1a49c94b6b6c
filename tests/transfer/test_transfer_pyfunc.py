from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.records import Candidate, find_device
from costmodel.testing import LANDSCAPE_DEVICE, gpu_landscape
from costmodel.transfer import kernel_frame, load_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning
from costmodel.transfer.prediction.pyfunc import OUTPUTS, PredictsFromFrame
from costmodel.tuning import train

pytestmark = pytest.mark.white_box


@pytest.fixture(scope="module")
def candidates() -> tuple[Candidate, ...]:
    return _dataset().candidates[:6]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PredictsFromFrame:
    file: Path = tmp_path_factory.mktemp("model") / "ridge.costmodel"
    train(_dataset(), "ridge").save(file)
    return PredictsFromFrame(load_model(file))


def _dataset():
    landscape = gpu_landscape(seed=1, configs_per_workload=10, sms=(8, 132))
    return dataset_from_measurements(landscape.to_measurements())


def test_rows_of_other_budgets_do_not_matter(model: PredictsFromFrame, candidates) -> None:
    few, many = (kernel_frame(candidates, LANDSCAPE_DEVICE, sms) for sms in (8, 132))
    both = pd.concat([few, many], ignore_index=True)
    found = model.predict(both)
    assert list(found) == list(OUTPUTS)
    np.testing.assert_allclose(found["rank_score"][: len(few)], model.predict(few)["rank_score"], rtol=1e-12)
    assert found["low_s"].isna().all()  # ridge promises nothing


def test_a_device_that_is_not_in_the_table_is_written_out(candidates) -> None:
    frame = kernel_frame(candidates, LANDSCAPE_DEVICE, 8)
    assert frame["device"][0].startswith("{")
    known = find_device("H100 SXM")
    assert kernel_frame(candidates, known, 8)["device"][0] == known.name


def test_rows_that_cannot_be_read_are_told(model: PredictsFromFrame, candidates) -> None:
    frame = kernel_frame(candidates, LANDSCAPE_DEVICE, 8)
    for column, value, text in (
        ("candidate", "{}", "JSON of a candidate"),
        ("device", "{}", "JSON of a device"),
        ("device", "nothing", "costmodel devices list"),
        ("sms", 100_000, "must be a whole number from 1 to"),
        ("sms", 0, "must be a whole number from 1 to"),
    ):
        with pytest.raises(CostModelError, match=text):
            model.predict(frame.assign(**{column: value}))


def test_a_model_of_other_columns_is_refused(model: PredictsFromFrame, candidates) -> None:
    other = PredictsFromFrame(replace(model.model, metadata=ModelMetadata(columns=("one",))))
    with pytest.raises(CostModelError, match="feature columns"):
        other.predict(kernel_frame(candidates, LANDSCAPE_DEVICE, 8))


def test_the_frame_holds_lines_of_a_file_of_candidates(candidates) -> None:
    lines = kernel_frame(candidates, LANDSCAPE_DEVICE, 8)["candidate"]
    assert [msgspec.json.decode(line, type=Candidate) for line in lines] == list(candidates)


def test_rows_are_predicted_as_the_model_predicts_on_a_device_never_measured(
    model: PredictsFromFrame, candidates
) -> None:
    device = find_device("RTX 4090")
    with pytest.warns(UnmeasuredDeviceWarning):
        ranked = model.model.predict(candidates, device=device, sms=(20, 60))
    frame = pd.concat([kernel_frame(candidates, device, sms) for sms in (20, 60)], ignore_index=True)
    found = model.predict(frame).assign(
        sms=frame["sms"], candidate_id=[each.candidate_id for each in candidates] * 2
    )
    both = ranked.merge(found, on=["sms", "candidate_id"])
    assert len(both) == 2 * len(candidates)
    np.testing.assert_allclose(both["latency_s_x"], both["latency_s_y"])
