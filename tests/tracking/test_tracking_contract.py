import pytest
from recorded_tracker import RecordedTracker

from costmodel.testing import TRACKER_CHECKS
from costmodel.tracking import MlflowTracker


@pytest.mark.parametrize("check", TRACKER_CHECKS, ids=lambda check: check.__name__)
def test_mlflow_keeps_the_contract(check, tracker: MlflowTracker) -> None:
    check(tracker)


@pytest.mark.parametrize("check", TRACKER_CHECKS, ids=lambda check: check.__name__)
def test_a_tracker_in_memory_keeps_the_contract(check) -> None:
    check(RecordedTracker())
