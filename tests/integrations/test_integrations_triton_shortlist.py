"""The order of configs by timings of the kernel elsewhere and by what is read of them."""

from collections.abc import Sequence

import pytest
from fake_records import fake_candidate, fake_measurement, fake_platform
from msgspec.structs import replace

from costmodel.integrations.triton._shortlist import rank_by_neighbours
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform

pytestmark = pytest.mark.white_box

TILES = (1, 2)
CANDIDATES = [fake_candidate(tile=tile) for tile in TILES]
DIMS = CANDIDATES[0].workload.dims
OTHER = replace(CANDIDATES[0].workload, dims=DIMS | {"m": 2 * DIMS["m"]})
PART, WHOLE = fake_platform(8), fake_platform(132)


def timed(microseconds: Sequence[float], sms: int = 132) -> list[Measurement]:
    return [
        replace(fake_measurement(tile=tile, sms=sms), latencies_s=(1e-6 * each,))
        for tile, each in zip(TILES, microseconds, strict=True)
    ]


def losses(part: Sequence[float], whole: Sequence[float]) -> dict[str, Sequence[float]]:
    return {PART.platform_id: part, WHOLE.platform_id: whole}


@pytest.mark.parametrize(
    ("microseconds", "part", "whole", "order"),
    [
        ((10.0, 11.0), (0.2, 0.2), (0.2, 0.2), [0, 1]),  # the same is read of both: timings decide
        ((10.0, 11.0), (0.25, 0.2), (0.25, 0.2), [0, 1]),  # as much slower where it was timed, and was not
        ((10.0, 11.0), (0.25, 0.2), (0.1, 0.2), [1, 0]),  # the first should lose on few SMs
        ((10.0, 15.0), (0.25, 0.2), (0.1, 0.2), [0, 1]),  # but less than it won
    ],
)
def test_timings_on_other_sms_are_moved_by_what_is_read_to_change(
    microseconds: Sequence[float], part: Sequence[float], whole: Sequence[float], order: list[int]
) -> None:
    told = losses(part, whole)

    def read(platform: Platform, _: str) -> Sequence[float]:
        return told[platform.platform_id]

    assert rank_by_neighbours(CANDIDATES, PART, timed(microseconds), read) == order


def test_near_sms_count_more_than_far_ones() -> None:
    near, far = timed((11.0, 10.0), 32), timed((10.0, 11.0))
    assert rank_by_neighbours(CANDIDATES, PART, [*near, *far]) == [1, 0]
    assert rank_by_neighbours(CANDIDATES, fake_platform(100), [*near, *far]) == [0, 1]


@pytest.mark.parametrize(
    ("microseconds", "here", "there", "order"),
    [
        ((10.0, 11.0), (0.2, 0.2), (), [0, 1]),  # nothing was read there
        ((10.0, 11.0), (0.3, 0.2), (0.3, 0.2), [0, 1]),  # as much slower where it was timed, and was not
        ((10.0, 11.0), (0.3, 0.2), (0.23, 0.2), [1, 0]),  # half of the change would not be enough
        ((10.0, 13.0), (0.3, 0.2), (0.23, 0.2), [0, 1]),  # nor is all of it
    ],
)
def test_timings_of_another_size_are_moved_by_all_that_is_read_to_change(
    microseconds: Sequence[float], here: Sequence[float], there: Sequence[float], order: list[int]
) -> None:
    measured = [
        replace(each, candidate=replace(each.candidate, workload=OTHER), platform=PART)
        for each in timed(microseconds)
    ]

    def read(_: Platform, workload: str) -> Sequence[float]:
        return there if workload == OTHER.name else here

    assert rank_by_neighbours(CANDIDATES, PART, measured, read) == order
