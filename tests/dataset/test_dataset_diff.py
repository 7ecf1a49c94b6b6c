from collections.abc import Iterable

import pytest
from fake_records import WORKLOADS, fake_measurement, fake_measurements
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from costmodel.dataset.publish._diff import Diff, WorkloadDiff, diff
from costmodel.dataset.table._records import Records
from costmodel.records import Measurement, Outcome

pytestmark = pytest.mark.white_box

ALL = tuple(fake_measurements())


def diff_of(left: Iterable[Measurement], right: Iterable[Measurement]) -> Diff:
    return diff(*([Records.of(measurements)] for measurements in (left, right)))


def test_a_dataset_does_not_differ_from_itself() -> None:
    found = diff_of(list(ALL), list(reversed(ALL)))
    assert found.is_empty
    assert [w.equal for w in found.workloads] == [28, 28, 28]
    assert found.shift.count == 0


def test_what_is_missing_added_and_changed_is_told_apart() -> None:
    first = [fake_measurement(WORKLOADS[0], tile) for tile in (1, 2, 4)]
    slower = replace(first[1], latencies_s=tuple(1.1 * s for s in first[1].latencies_s))
    second = [first[0], slower, fake_measurement(WORKLOADS[0], 8), fake_measurement(WORKLOADS[1], 1)]
    found = diff_of(first, second)
    one, other = found.workloads
    assert one == WorkloadDiff(WORKLOADS[0], left=1, right=1, equal=1, changed=1, ratio=pytest.approx(1.1))
    assert (other.workload, other.left, other.right, other.equal, other.changed) == (WORKLOADS[1], 0, 1, 0, 0)
    assert found.shift.count == 1
    assert found.shift.median == pytest.approx(0.1)
    assert found.fields == {"latencies_s": 1}
    assert not found.is_empty


def test_outcomes_and_other_fields_are_named() -> None:
    ok = fake_measurement(WORKLOADS[0], 1)
    failed = fake_measurement(WORKLOADS[0], 1, outcome=Outcome.TIMEOUT)
    other = fake_measurement(WORKLOADS[0], 2)
    unlowered = replace(other, candidate=replace(other.candidate, launches=()))
    found = diff_of([ok, other], [failed, unlowered])
    assert found.outcomes == {"ok -> timeout": 1}
    assert found.fields["launches"] == found.fields["outcome"] == found.fields["error"] == 1
    assert found.shift.count == 1  # the one of which only the launches differ
    assert found.shift.max == 0.0


@given(st.sets(st.integers(0, len(ALL) - 1), min_size=1), st.sets(st.integers(0, len(ALL) - 1), min_size=1))
def test_counts_are_those_of_sets(first: set[int], second: set[int]) -> None:
    found = diff_of([ALL[i] for i in first], [ALL[i] for i in second])
    sums = [sum(getattr(w, name) for w in found.workloads) for name in ("left", "right", "equal", "changed")]
    assert sums == [len(first - second), len(second - first), len(first & second), 0]
    assert found.is_empty == (first == second)
