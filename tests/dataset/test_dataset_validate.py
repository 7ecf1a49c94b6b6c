from typing import Any

import msgspec
import pytest
from fake_records import DEVICE, fake_measurement
from hypothesis import given
from hypothesis import strategies as st

from costmodel.dataset.checks._sieve import Sieve, Validation
from costmodel.dataset.table._records import Records
from costmodel.records import Candidate, Config, Measurement, Outcome, Platform

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace


def sift(records: list[Measurement]) -> Validation:
    return Sieve().sift(Records.of(records))


def reasons(records: list[Measurement]) -> list[str]:
    return sift(records).reasons


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
    result = sift([fake_measurement(), fake_measurement(), fake_measurement(tile=2)])
    assert (len(result.accepted), result.duplicates, result.reasons) == (2, 1, [])


def test_of_two_records_of_one_key_the_earlier_stays() -> None:
    early = replace(fake_measurement(), measured_at="2026-01-01T00:00:00Z", latencies_s=(1.0,))
    late = replace(fake_measurement(), measured_at="2026-02-01T00:00:00Z", latencies_s=(2.0,))
    result = sift([late, early])
    assert list(result.accepted.measurements()) == [early]
    assert list(result.rejected.measurements()) == [late]
    assert result.rejected_at.tolist() == [0]
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
    accepted = sift([unknown, known]).accepted
    assert [m.candidate for m in accepted.measurements()] == [known.candidate] * 2


def test_launches_that_differ_are_refused() -> None:
    record = fake_measurement(sms=64)
    launches = tuple(replace(launch, blocks=1) for launch in record.candidate.launches)
    other: Candidate = replace(record.candidate, launches=launches)
    assert reasons([fake_measurement(sms=8), replace(record, candidate=other)]) == [
        "launches differ from those of another record of the same candidate"
    ]


@given(st.permutations([fake_measurement(tile=t, sms=s) for t in (1, 2) for s in (8, 132)] * 2))
def test_the_order_of_records_does_not_matter(records: list[Measurement]) -> None:
    result, other = sift(records), sift(sorted(records, key=lambda m: m.key))
    assert list(result.accepted.measurements()) == list(other.accepted.measurements())
    assert (result.duplicates, result.reasons) == (other.duplicates, other.reasons) == (4, [])


def test_of_records_of_one_time_the_bytes_decide() -> None:
    """Whatever their order; those that are equal to the one that stays count as duplicates."""
    records = [replace(fake_measurement(), latencies_s=(s,)) for s in (3.0, 1.0, 2.0, 1.0)]
    for rotated in (records, records[1:] + records[:1], records[::-1]):
        result = sift(rotated)
        assert [m.latencies_s for m in result.accepted.measurements()] == [(1.0,)]
        assert [m.latencies_s for m in result.rejected.measurements()] == [(2.0,), (3.0,)]
        assert result.duplicates == 1


def test_the_bytes_decide_for_each_kernel_alone() -> None:
    tiles = (1, 2, 4, 8, 16)
    records = [replace(fake_measurement(tile=t), latencies_s=(s,)) for s in (3.0, 1.0, 2.0) for t in tiles]
    alone = replace(fake_measurement(tile=32), latencies_s=(9.0,))
    result = sift([*records[:4], alone, *records[4:]])
    assert sorted(m.latencies_s for m in result.accepted.measurements()) == [(1.0,)] * 5 + [(9.0,)]
    of_kernels = [(m.candidate.candidate_id, m.latencies_s) for m in result.rejected.measurements()]
    ids = sorted({m.candidate.candidate_id for m in records})
    assert of_kernels == [(name, (s,)) for name in ids for s in (2.0, 3.0)]


def test_how_a_config_or_software_is_written_makes_no_difference() -> None:
    one = fake_measurement()
    backwards = Config(dict(reversed(one.candidate.config.decisions.items())))
    software = dict(reversed(one.platform.software.items()))
    other = replace(
        one,
        candidate=replace(one.candidate, config=backwards),
        platform=replace(one.platform, software=software),
    )
    assert sift([one, other]).duplicates == 1


def test_only_records_without_a_fault_say_what_devices_and_launches_are() -> None:
    wrong = replace(on_platform(device=replace(DEVICE, clock_mhz=1.0)), visit=7)
    launches = tuple(replace(launch, blocks=1) for launch in wrong.candidate.launches)
    wrong = replace(wrong, candidate=replace(wrong.candidate, launches=launches), measured_at="")
    assert reasons([wrong, fake_measurement()]) == ["visit must be 0 or 1, but got 7"]
    sieve = Sieve()
    sieve.sift(Records.of([fake_measurement()]))
    other = replace(on_platform(device=replace(DEVICE, clock_mhz=1.0)), visit=1)
    assert sieve.sift(Records.of([other])).reasons == [f"device {DEVICE.name} is described in two ways"]
