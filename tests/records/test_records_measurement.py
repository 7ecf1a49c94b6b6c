"""What a measurement must hold, and what it is known by."""

import msgspec
import pytest
from fake_records import fake_candidate, fake_measurement, fake_platform

from costmodel.records import Measurement, Outcome
from costmodel.records._measurement import measurement_key

pytestmark = pytest.mark.white_box


def test_a_key_tells_candidate_platform_visit_and_company() -> None:
    alone = fake_measurement()
    others = [
        fake_measurement(tile=2),
        fake_measurement(sms=32),
        fake_measurement(visit=1),
        msgspec.structs.replace(alone, co_runners=("a neighbour",)),
        msgspec.structs.replace(alone, visit=1, co_runners=("a neighbour",)),
    ]
    assert len({measurement.key for measurement in [alone, *others]}) == 6
    assert msgspec.structs.replace(others[-2], co_runners=("another",)).key == others[-2].key
    later = msgspec.structs.replace(alone, measured_at="2030-01-01T00:00:00Z", latencies_s=(1.0,))
    assert later.key == alone.key


def test_a_key_is_known_before_it_is_measured() -> None:
    assert measurement_key(fake_candidate(), fake_platform()) == fake_measurement().key
    assert measurement_key(fake_candidate(), fake_platform(), 1) == fake_measurement(visit=1).key
    beside = msgspec.structs.replace(fake_measurement(), co_runners=("a neighbour",))
    assert measurement_key(fake_candidate(), fake_platform(), co_run=True) == beside.key


def test_the_latency_is_the_median_of_the_repeats_or_infinite() -> None:
    measured = msgspec.structs.replace(fake_measurement(), latencies_s=(3.0, 1.0, 1.5))
    assert measured.latency_s == 1.5
    assert fake_measurement(outcome=Outcome.TIMEOUT).latency_s == float("inf")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 1}, "schema_version must be 2, but got 1"),
        ({"latencies_s": ()}, "exactly when ok, but outcome is ok"),
        ({"outcome": Outcome.TIMEOUT}, "exactly when ok, but outcome is timeout"),
        ({"latencies_s": (1.0, 0.0)}, r"positive and finite, but got \(1.0, 0.0\)"),
        ({"latencies_s": (1.0, -1.0)}, "positive and finite"),
        ({"latencies_s": (1.0, float("inf"))}, "positive and finite"),
        ({"latencies_s": (float("nan"),)}, "positive and finite"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    fields = {name: getattr(fake_measurement(), name) for name in Measurement.__struct_fields__}
    with pytest.raises(ValueError, match=message):
        Measurement(**{**fields, **changes})
