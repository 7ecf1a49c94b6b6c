from typing import Any

import msgspec
import pytest
from fake_records import DEVICE, fake_measurement
from hypothesis import given
from hypothesis import strategies as st

from costmodel.dataset.checks import Sieve
from costmodel.records import Candidate, Measurement, Outcome, Platform

replace = msgspec.structs.replace


def reasons(records: list[Measurement]) -> list[str]:
    return [reject.reason for reject in Sieve().sift(records).rejects]


def on_platform(**changes: Any) -> Measurement:
    record = fake_measurement()
    return replace(record, platform=replace(record.platform, **changes))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (fake_measurement("softmax-m512-n512"), None),
        (on_platform(sms_granted=133), "sms_granted must be in 1..132, but got 133"),
        (on_platform(sms_granted=0), "sms_granted must be in 1..132, but got 0"),
        (
            replace(fake_measurement(), runs_per_repeat=0),
            "runs_per_repeat must be at least 1 when ok, but got 0",
        ),
        (replace(fake_measurement(), visit=2), "visit must be 0 or 1, but got 2"),
        (
            replace(fake_measurement(), measured_at="2026-11-21T10:00:00"),
            "measured_at must be a UTC time in ISO 8601, but got '2026-11-21T10:00:00'",
        ),
        (replace(fake_measurement(), measured_at="2026-11-21T10:00:00Z"), None),
        (
            replace(fake_measurement(), measured_at="yesterday"),
            "measured_at must be a UTC time in ISO 8601, but got 'yesterday'",
        ),
    ],
)
def test_each_fault_has_its_reason(record: Measurement, reason: str | None) -> None:
    assert reasons([record]) == ([reason] if reason else [])


def test_equal_records_are_dropped_and_counted() -> None:
    result = Sieve().sift([fake_measurement(), fake_measurement(), fake_measurement(tile=2)])
    assert (len(result.accepted), result.duplicates, result.rejects) == (2, 1, ())


def test_of_two_records_of_one_key_the_earlier_stays() -> None:
    early = replace(fake_measurement(), measured_at="2026-01-01T00:00:00Z", latencies_s=(1.0,))
    late = replace(fake_measurement(), measured_at="2026-02-01T00:00:00Z", latencies_s=(2.0,))
    result = Sieve().sift([late, early])
    assert result.accepted == (early,)
    assert [reject.record for reject in result.rejects] == [late]
    assert reasons([late, early]) == ["another measurement has the same candidate, platform and visit"]


def test_one_device_has_one_description() -> None:
    other = replace(DEVICE, clock_mhz=1.0)
    record = replace(fake_measurement(tile=2), platform=Platform(other, "green_context", 32, 32))
    assert reasons([fake_measurement(tile=1), record]) == [f"device {DEVICE.name} is described in two ways"]


def test_launches_are_shared_by_the_records_of_a_candidate() -> None:
    known = fake_measurement(sms=64)
    unknown = replace(
        fake_measurement(sms=8, outcome=Outcome.COMPILE_ERROR),
        candidate=replace(known.candidate, launches=()),
    )
    assert [m.candidate for m in Sieve().sift([unknown, known]).accepted] == [known.candidate] * 2


def test_launches_that_differ_are_refused() -> None:
    record = fake_measurement(sms=64)
    launches = tuple(replace(launch, blocks=1) for launch in record.candidate.launches)
    other: Candidate = replace(record.candidate, launches=launches)
    assert reasons([fake_measurement(sms=8), replace(record, candidate=other)]) == [
        "launches differ from those of another record of the same candidate"
    ]


@given(st.permutations([fake_measurement(tile=t, sms=s) for t in (1, 2) for s in (8, 132)] * 2))
def test_the_order_of_records_does_not_matter(records: list[Measurement]) -> None:
    result = Sieve().sift(records)
    assert result == Sieve().sift(sorted(records, key=lambda m: m.key))
    assert result.duplicates == 4
