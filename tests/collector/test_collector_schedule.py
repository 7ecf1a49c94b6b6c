from collections import Counter

import msgspec
import pytest
from fake_collector import CONFIG, DEVICE, FakeCollector
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collector import CampaignConfig
from costmodel.collector.campaign._config import MpsPlan
from costmodel.collector.campaign._schedule import CampaignSchedule
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, Measurement, Outcome, Platform, Workload

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace
COLLECTOR = FakeCollector()
CANDIDATES = [
    Candidate(Workload.parse("softmax-m64-n32"), "fake-1", Config({"tile": tile})) for tile in range(1, 61)
]
BUDGETS = (8, 16, 24, 32, 48, 64, 96, 132)

counts = st.integers(1, 60)
budgets = st.lists(st.sampled_from(BUDGETS), min_size=1, unique=True).map(tuple)
shares = st.floats(0.0, 1.0)
configs = st.builds(
    lambda sms, size, partitions, repeats, share: replace(
        CONFIG,
        sms=sms,
        side_by_side=size,
        partitions=partitions,
        repeat_share=repeats,
        mps=MpsPlan(sms[:3], share),
    ),
    budgets,
    st.integers(1, 9),
    st.integers(1, 4),
    shares,
    shares,
)


def schedule_of(config: CampaignConfig) -> CampaignSchedule:
    under_mps = config.mps.sms if config.mps else ()
    return CampaignSchedule(
        config,
        [COLLECTOR.platform(sms) for sms in config.sms],
        [COLLECTOR.platform(sms, "mps") for sms in under_mps],
    )


def pair(request: Request) -> tuple[str, str]:
    return request.candidate.candidate_id, request.platform.platform_id


@given(configs, counts)
def test_batches_cover_each_pair_once(config: CampaignConfig, count: int) -> None:
    batches = schedule_of(config).first_visits(CANDIDATES[:count])
    asked = Counter(pair(request) for batch in batches for request in batch)
    usual = {p.platform_id for p in map(COLLECTOR.platform, config.sms)}
    assert set(asked.values()) == {1}
    grid = {(c.candidate_id, p) for c in CANDIDATES[:count] for p in usual}
    assert {key for key in asked if key[1] in usual} == grid
    under_mps = Counter(key[0] for key in asked if key[1] not in usual)
    assert config.mps is not None
    assert set(under_mps.values()) <= {len(config.mps.sms)}  # all of its budgets or none
    assert {r.visit for batch in batches for r in batch} == {0}


@given(configs, counts)
def test_a_batch_shares_the_partitions_and_holds_no_more_than_asked(
    config: CampaignConfig, count: int
) -> None:
    for batch in schedule_of(config).first_visits(CANDIDATES[:count]):
        (partitions,) = {request.partitions for request in batch}
        platforms = {request.platform.platform_id: request.platform for request in batch}
        candidates = {request.candidate.candidate_id for request in batch}
        assert len(candidates) <= config.side_by_side * config.partitions
        assert len(batch) == len(candidates) * len(platforms)
        for platform in platforms.values():
            fits = config.partitions * platform.sms_granted <= DEVICE.sms
            shared = platform.isolation == "green_context" and fits
            assert partitions == (config.partitions if shared else 1)
        if any(platform.isolation == "mps" for platform in platforms.values()):
            assert len(platforms) == 1


@pytest.mark.parametrize(
    ("sms", "partitions"), [(32, 4), (44, 3), (45, 3), (48, 3), (66, 2), (67, 2), (132, 2)]
)
def test_as_many_partitions_measure_at_once_as_were_asked_for_if_they_fit(sms: int, partitions: int) -> None:
    config = replace(CONFIG, sms=(sms,), partitions=partitions, mps=None)
    (first, *_), *_ = CampaignSchedule(config, [COLLECTOR.platform(sms)]).first_visits(CANDIDATES)
    assert first.partitions == (partitions if partitions * sms <= DEVICE.sms else 1)


@given(configs, counts)
def test_repeats_are_some_of_the_first_visits(config: CampaignConfig, count: int) -> None:
    schedule = schedule_of(config)
    first = [r for batch in schedule.first_visits(CANDIDATES[:count]) for r in batch]
    batches = schedule.repeats(CANDIDATES[:count])
    again = [r for batch in batches for r in batch]
    assert all(batches)
    assert {replace(r, visit=0).key for r in again} <= {r.key for r in first}
    assert {r.visit for r in again} <= {1}
    assert len({r.key for r in again}) == len(again)


@given(configs, shares, shares)
def test_shares_grow_and_do_not_depend_on_the_batches(config: CampaignConfig, a: float, b: float) -> None:
    low, high = sorted((a, b))

    def chosen(share: float, size: int) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        mps = MpsPlan((8,), share)
        schedule = schedule_of(replace(config, side_by_side=size, repeat_share=share, mps=mps))
        first = {pair(r) for batch in schedule.first_visits(CANDIDATES) for r in batch}
        again = {pair(r) for batch in schedule.repeats(CANDIDATES) for r in batch}
        return first, again

    assert chosen(low, 3) == chosen(low, 8)
    assert all(few <= many for few, many in zip(chosen(low, 3), chosen(high, 3), strict=True))


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (1.0, 60)])
def test_no_share_and_all(share: float, count: int) -> None:
    config = replace(CONFIG, sms=(8,), repeat_share=share, mps=MpsPlan((16,), share))
    schedule = schedule_of(config)
    first = [r for batch in schedule.first_visits(CANDIDATES) for r in batch]
    assert sum(r.platform.isolation == "mps" for r in first) == count
    assert sum(map(len, schedule.repeats(CANDIDATES))) == 2 * count


def measured(
    tile: int, platform: Platform, latency_s: float, *co_runners: str, visit: int = 0
) -> Measurement:
    return Measurement(
        candidate=CANDIDATES[tile - 1],
        platform=platform,
        outcome=Outcome.OK,
        latencies_s=(latency_s,),
        visit=visit,
        co_runners=co_runners,
        measured_at="",
    )


def test_finalists_are_the_fastest_of_each_shared_budget_once() -> None:
    config = replace(CONFIG, sms=(8, 32, 64, 132), partitions=4, finalists=2)
    schedule = schedule_of(config)
    eight, thirty_two, whole = map(COLLECTOR.platform, (8, 32, 132))
    known = [
        *(measured(tile, eight, 1e-3 * tile, "x") for tile in (3, 1, 2, 4)),
        *(measured(tile, thirty_two, 1e-3 / tile, "x") for tile in (1, 2, 3)),
        measured(9, eight, 1e-6),  # alone already
        measured(10, eight, 1e-6, "x", visit=1),
        *(measured(tile, whole, 1e-6 * tile) for tile in (20, 21)),
    ]
    batches = schedule.finalists(known)
    requests = [r for batch in batches for r in batch]
    assert {r.partitions for r in requests} == {1}
    # 1 and 2 are the best on 8 SMs, 3 and 2 on 32; each is measured wherever partitions were shared.
    best = {CANDIDATES[i - 1].candidate_id for i in (1, 2, 3)}
    assert Counter(map(pair, requests)) == Counter(
        (id_, p.platform_id) for id_ in best for p in (eight, thirty_two)
    )
    assert schedule_of(replace(config, partitions=1)).finalists(known) == []
    assert schedule_of(replace(config, finalists=0)).finalists(known) == []


def test_two_budgets_on_one_platform_are_refused() -> None:
    coarse = FakeCollector(granularity=8)
    with pytest.raises(CostModelError, match="9 and 16 both get 16 "):
        CampaignSchedule(CONFIG, [coarse.platform(9), coarse.platform(16)])
    CampaignSchedule(CONFIG, [coarse.platform(9)], [coarse.platform(16, "mps")])
