import asyncio
import errno
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_collector import CONFIG, FakeCollector, draw_tiles, files, stored

from costmodel.collector import CampaignConfig, EngineLostError
from costmodel.collector.campaign._campaign import Campaign
from costmodel.collector.campaign._collector import draw_at_random
from costmodel.collector.campaign._config import KernelPlan, MpsPlan
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.kernels import CudaSource
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Candidate, Measurement, Outcome, RecordStore, Workload, read_records

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace
FIRST_VISITS = 3 * (10 + 2 * 5) * 3  # workloads x kernels x budgets


def campaign(path: Path, config: CampaignConfig = CONFIG, collector: FakeCollector | None = None) -> Campaign:
    return Campaign(config, collector or FakeCollector(), CampaignFolder(path), draw_tiles)


def collect(path: Path, config: CampaignConfig = CONFIG) -> dict[str, Measurement]:
    """What an uninterrupted campaign stores, by key."""
    assert campaign(path, config).run().finished
    return stored(CampaignFolder(path))


def repeated(measurements: dict[str, Measurement]) -> set[tuple[str, str]]:
    """Candidate and platform of each repeat."""
    return {(m.candidate.candidate_id, m.platform.platform_id) for m in measurements.values() if m.visit == 1}


def test_everything_asked_for_is_measured_once(tmp_path: Path) -> None:
    seen: list[Measurement] = []
    report = campaign(tmp_path).run(on_measurement=seen.append)
    first = [m for m in seen if m.visit == 0]
    grid = {(m.candidate.workload.name, m.candidate.candidate_id, m.platform.sms_requested) for m in first}
    assert len(first) == len(grid) == FIRST_VISITS
    assert {name for name, _, _ in grid} == set(CONFIG.workloads)
    assert {sms for _, _, sms in grid} == set(CONFIG.sms)
    assert seen == list(read_records(tmp_path / "measurements.jsonl"))
    assert (report.finished, report.measured, report.stored) == (True, len(seen), len(seen))
    failed = sum(m.outcome is Outcome.LAUNCH_ERROR for m in seen)
    assert 0 < failed < len(seen)
    assert report.outcomes == {"launch_error": failed, "ok": len(seen) - failed}


def test_the_same_seed_proposes_the_same(tmp_path: Path) -> None:
    every = [
        collect(tmp_path / "a"),
        collect(tmp_path / "b"),
        collect(tmp_path / "c", replace(CONFIG, seed=1)),
    ]
    a, b, c = (files(tmp_path / name) for name in "abc")
    assert a == b
    assert every[0] == every[1]
    proposals = [name for name in a if name.startswith("proposals/")]
    assert len(proposals) == 3 * 3  # workloads x rounds
    assert not any(a[name] == c[name] for name in proposals)


def test_later_rounds_are_drawn_from_what_the_store_holds_of_earlier_ones(tmp_path: Path) -> None:
    collector, folder = FakeCollector(), CampaignFolder(tmp_path)
    campaign(tmp_path, collector=collector).run()
    found = stored(folder).values()
    for workload in map(Workload.parse, CONFIG.workloads):
        draws = [(count, options) for name, count, _, options in collector.draws if name == workload.name]
        assert [count for count, _ in draws] == [10, 5, 5]
        earlier: set[str] = set()
        for round_, (_, options) in enumerate(draws):
            assert options.keys() == {"measured", "budgets", "source"}
            assert options["source"].name == "metaschedule"
            assert options["budgets"] == (8, 132)
            known = {m.key: m for m in options["measured"]}
            assert len(known) == len(options["measured"])
            assert known == {m.key: m for m in found if m.visit == 0 and m.candidate.candidate_id in earlier}
            assert len(known) == 3 * len(earlier)
            proposals = folder.proposals(workload, round_)
            assert proposals is not None
            earlier |= {candidate.candidate_id for candidate in proposals}
    seeds = [seed for _, _, seed, _ in collector.draws]
    assert len(set(seeds)) == len(seeds)


def test_all_workloads_advance_at_once(tmp_path: Path) -> None:
    """While the device has the first batch of one workload, those of the others wait for it already."""
    waiting: list[bool] = []
    collector = FakeCollector(seconds=0.0)
    submitted: set[str] = set()
    all_submitted = threading.Event()
    submit = collector.submit

    def note(requests: Sequence[Request]) -> Any:
        submitted.add(requests[0].candidate.workload.name)
        if submitted == set(CONFIG.workloads):
            all_submitted.set()
        return submit(requests)

    collector.submit = note  # type: ignore[method-assign]
    collector.before_batch = lambda _: waiting.append(all_submitted.wait(0.0 if waiting else 60.0))
    campaign(tmp_path, replace(CONFIG, kernels=KernelPlan(random=4)), collector).run()
    assert waiting[0]


def test_repeats_are_a_share_that_every_run_agrees_on(tmp_path: Path) -> None:
    plan = KernelPlan(random=60)
    shares = {
        share: collect(tmp_path / str(share), replace(CONFIG, kernels=plan, repeat_share=share))
        for share in (0.0, 0.1, 0.3, 1.0)
    }
    count = 3 * 60 * 3
    assert repeated(shares[0.0]) < repeated(shares[0.1]) < repeated(shares[0.3]) < repeated(shares[1.0])
    assert len(repeated(shares[0.0])) == 0
    # Keys are uniform: 540 draws at 0.1 and 0.3 stray by more than four standard deviations once in 15,000.
    assert len(repeated(shares[0.1])) == pytest.approx(0.1 * count, abs=4 * (count * 0.1 * 0.9) ** 0.5)
    assert len(repeated(shares[0.3])) == pytest.approx(0.3 * count, abs=4 * (count * 0.3 * 0.7) ** 0.5)
    assert len(repeated(shares[1.0])) == count
    again = collect(tmp_path / "again", replace(CONFIG, kernels=plan, repeat_share=0.3))
    assert repeated(again) == repeated(shares[0.3])


def test_repeats_come_when_the_round_has_run(tmp_path: Path) -> None:
    collector = FakeCollector(seconds=0.0)
    campaign(tmp_path, replace(CONFIG, kernels=KernelPlan(random=20)), collector).run()
    for name in CONFIG.workloads:
        visits = [r.visit for batch in collector.batches for r in batch if r.candidate.workload.name == name]
        assert visits == sorted(visits)
        assert visits[-1] == 1


def blocking_after(batches: int) -> FakeCollector:
    """A collector whose device gets stuck in a batch, and goes on when a batch that waits is cancelled."""

    def wait(_: Sequence[Request]) -> None:
        if len(collector.batches) == batches:
            assert collector.cancelled.wait(600)

    collector = FakeCollector(seconds=0.0, before_batch=wait)
    return collector


def test_a_time_limit_keeps_what_is_on_the_device_and_a_later_run_goes_on(tmp_path: Path) -> None:
    begun = time.monotonic()
    uninterrupted = collect(tmp_path / "whole")
    limit_s = 5 * (time.monotonic() - begun)  # the device gets stuck long before, on a busy machine too
    folder = tmp_path / "parts"
    known: dict[str, Measurement] = {}
    for batches in (0, 3, 6):
        collector = blocking_after(batches)
        report = campaign(folder, collector=collector).run(time_limit_s=limit_s)
        assert len(collector.batches) > batches
        now = stored(CampaignFolder(folder))
        assert not report.finished
        assert now.keys() - known.keys() == set(collector.measured)
        assert (report.measured, report.stored) == (len(now) - len(known), len(now))
        assert known.items() <= now.items()
        known = now
    collector = FakeCollector()
    assert campaign(folder, collector=collector).run().finished
    assert stored(CampaignFolder(folder)) == uninterrupted
    assert set(collector.measured) == uninterrupted.keys() - known.keys()
    assert files(folder) == files(tmp_path / "whole")


def test_no_time_at_all_measures_nothing(tmp_path: Path) -> None:
    limited = replace(CONFIG, time_limit_s=1000.0)
    collector = FakeCollector(seconds=0.0, before_batch=lambda _: pytest.fail("nothing may be measured"))
    report = campaign(tmp_path, limited, collector).run(time_limit_s=0.0)
    assert (report.finished, report.measured, report.stored, report.outcomes) == (False, 0, 0, {})
    assert collector.draws == []


def test_the_configs_time_limit_holds_unless_another_is_given(tmp_path: Path) -> None:
    limited = replace(CONFIG, time_limit_s=0.2)
    assert not campaign(tmp_path, limited, blocking_after(1)).run().finished
    assert campaign(tmp_path, limited).run(time_limit_s=1000.0).finished


def test_a_finished_campaign_draws_and_measures_nothing(tmp_path: Path) -> None:
    found = collect(tmp_path)
    collector = FakeCollector()
    seen: list[Measurement] = []
    again = campaign(tmp_path, collector=collector)
    report = again.run(on_measurement=seen.append)
    assert (report.finished, report.measured, report.stored) == (True, 0, len(found))
    assert {m.key: m for m in seen} == found
    assert collector.draws == collector.batches == []
    assert again.run() == report


def test_a_resumed_campaign_measures_only_what_is_missing(tmp_path: Path) -> None:
    found = collect(tmp_path)
    folder = CampaignFolder(tmp_path)
    folder.store.unlink()
    with RecordStore(folder.store) as store:
        store.append(list(found.values())[:40])
    collector = FakeCollector()
    assert campaign(tmp_path, collector=collector).run().measured == len(found) - 40
    assert sorted(collector.measured) == sorted(list(found)[40:])
    assert collector.draws == []
    assert stored(folder) == found


class WithoutMemory(FakeCollector):
    """Has no memory for the kernels that fail."""

    def _measure_all(self, requests: Sequence[Request]) -> list[Measurement]:
        measured = super()._measure_all(requests)
        return [replace(each, error="CUDA_ERROR_OUT_OF_MEMORY") if each.error else each for each in measured]


def test_what_failed_for_want_of_memory_is_left_to_the_next_run(tmp_path: Path, caplog) -> None:
    report = campaign(tmp_path, collector=WithoutMemory()).run()
    kept = stored(CampaignFolder(tmp_path))
    assert set(report.outcomes) == {"ok"}
    assert "is left to the next run: CUDA_ERROR_OUT_OF_MEMORY" in caplog.text

    collector = FakeCollector()
    campaign(tmp_path, collector=collector).run()
    found = stored(CampaignFolder(tmp_path))
    failed = {key for key, each in found.items() if each.outcome is Outcome.LAUNCH_ERROR}
    assert failed == found.keys() - kept.keys()
    assert set(collector.measured) == failed


def test_a_small_space_ends_early(tmp_path: Path) -> None:
    plan = KernelPlan(random=1990, rounds=1, per_round=30, good_at=(8,))
    config = replace(CONFIG, workloads=CONFIG.workloads[:1], sms=(8,), kernels=plan, repeat_share=0.0)
    # At most 18 tiles are near the fastest, most of them known.
    assert 1990 <= len(collect(tmp_path, config)) < 1990 + 18


def test_a_share_of_the_kernels_is_measured_under_mps_as_well(tmp_path: Path) -> None:
    plan = KernelPlan(random=60)
    mps = MpsPlan(sms=(16, 32), share=0.5)
    found = collect(tmp_path / "half", replace(CONFIG, kernels=plan, mps=mps)).values()
    usual = {m.candidate.candidate_id for m in found if m.platform.isolation != "mps"}
    chosen = {m.candidate.candidate_id for m in found if m.platform.isolation == "mps"}
    assert len(usual) == 180
    assert chosen < usual
    assert len(chosen) == pytest.approx(90, abs=4 * (180 * 0.25) ** 0.5)
    under_mps = [m for m in found if m.platform.isolation == "mps" and m.visit == 0]
    assert len(under_mps) == 2 * len(chosen)
    assert {m.platform.sms_requested for m in under_mps} == {16, 32}
    every = collect(tmp_path / "all", replace(CONFIG, kernels=plan, mps=replace(mps, share=1.0))).values()
    assert chosen < {m.candidate.candidate_id for m in every if m.platform.isolation == "mps"} == usual


SHARED = replace(CONFIG, sms=(8, 64, 132), partitions=4, finalists=2)  # four times 64 are too many


def test_the_fastest_of_each_shared_budget_are_measured_alone_at_the_end(tmp_path: Path) -> None:
    collector = FakeCollector(seconds=0.0)
    campaign(tmp_path, SHARED, collector).run()
    found = stored(CampaignFolder(tmp_path)).values()
    assert {r.partitions for batch in collector.batches for r in batch if r.platform.sms_granted > 8} == {1}
    for name in SHARED.workloads:
        mine = [m for m in found if m.candidate.workload.name == name and m.visit == 0]
        at_eight = [m for m in mine if m.platform.sms_granted == 8]
        beside = sorted((m for m in at_eight if m.co_runners), key=lambda m: m.latency_s)
        alone = [m for m in at_eight if not m.co_runners and m.outcome is Outcome.OK]
        assert {m.candidate.candidate_id for m in alone} == {m.candidate.candidate_id for m in beside[:2]}
        asked = [r for batch in collector.batches for r in batch if r.candidate.workload.name == name]
        assert {r.key for r in asked[-2:]} == {m.key for m in alone}
        assert all(not m.co_runners for m in mine if m.platform.sms_granted > 8)


def test_what_fails_beside_others_is_not_measured_again(tmp_path: Path) -> None:
    found = collect(tmp_path, SHARED)
    failed = [m for m in found.values() if m.platform.sms_granted == 8 and m.outcome is not Outcome.OK]
    assert failed
    collector = FakeCollector()
    assert campaign(tmp_path, SHARED, collector).run().measured == 0
    assert collector.batches == []


@pytest.mark.parametrize(
    "other",
    [
        replace(CONFIG, seed=1),
        replace(CONFIG, sms=(8, 132)),
        replace(CONFIG, kernels=replace(CONFIG.kernels, random=11)),
        replace(CONFIG, kernels=replace(CONFIG.kernels, rounds=1)),
        replace(CONFIG, repeat_share=0.5),
    ],
)
def test_the_folder_of_another_campaign_is_left_alone(tmp_path: Path, other: CampaignConfig) -> None:
    found = collect(tmp_path)
    before = files(tmp_path)
    with pytest.raises(CostModelError, match=r"must contain this campaign or none, .*campaign\.json differs"):
        campaign(tmp_path, other)
    assert files(tmp_path) == before
    assert stored(CampaignFolder(tmp_path)) == found


def test_a_campaign_goes_on_with_more_rounds(tmp_path: Path) -> None:
    more = replace(CONFIG, kernels=replace(CONFIG.kernels, rounds=3), time_limit_s=100.0)
    first = collect(tmp_path / "a")
    both = collect(tmp_path / "a", more)
    assert first.items() < both.items()
    assert both == collect(tmp_path / "b", more)
    assert CampaignFolder(tmp_path / "a").config() == more


def test_a_config_can_be_mended_until_something_was_drawn_by_it(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="but got 133"):
        campaign(tmp_path, replace(CONFIG, sms=(8, 133)))
    assert collect(tmp_path)
    assert CampaignFolder(tmp_path).config() == CONFIG


def test_two_budgets_that_are_granted_the_same_are_refused(tmp_path: Path) -> None:
    coarse = FakeCollector(granularity=8)
    with pytest.raises(
        CostModelError, match=r"12 and 16 both get 16 \(Fake GPU/green_context/16\). Leave one"
    ):
        campaign(tmp_path, replace(CONFIG, sms=(8, 12, 16, 132)), coarse)
    campaign(tmp_path, replace(CONFIG, sms=(8, 12), mps=MpsPlan(sms=(8, 16))), coarse)


def test_proposals_are_copied_where_none_were_drawn(tmp_path: Path) -> None:
    collect(tmp_path / "first")
    longer = replace(CONFIG, kernels=replace(CONFIG.kernels, rounds=3), sms=(16, 132), seed=5)
    longer = replace(longer, kernels=replace(longer.kernels, good_at=(16,)))
    folder = CampaignFolder(tmp_path / "second")
    folder.claim(longer)
    own = Workload.parse(CONFIG.workloads[0])
    (drawn,) = draw_tiles(own, "cuda", 1, 0, measured=(), budgets=())
    folder.write_proposals(own, 0, [drawn])
    folder.copy_proposals(CampaignFolder(tmp_path / "first"))
    collector = FakeCollector()
    campaign(tmp_path / "second", longer, collector).run()
    assert [(name, count) for name, count, _, _ in collector.draws] == [(w, 5) for w in CONFIG.workloads]
    first, second = files(tmp_path / "first"), files(tmp_path / "second")
    for name in first:
        if name.startswith("proposals/"):
            assert (first[name] == second[name]) == (name != f"proposals/{own.name}.0.json")
    assert folder.proposals(own, 0) == [drawn]


def test_proposals_of_a_folder_without_any_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="nowhere must contain the candidates of a campaign"):
        CampaignFolder(tmp_path).copy_proposals(CampaignFolder(tmp_path / "nowhere"))


def test_proposals_are_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    other, folder = CampaignFolder(tmp_path / "other"), CampaignFolder(tmp_path / "mine")
    for each in (other, folder):
        each.claim(CONFIG)
    (other.path / "proposals" / "a.0.json").mkdir()
    with pytest.raises(CostModelError, match=r"a\.0\.json"):
        folder.copy_proposals(other)
    assert not folder.has_proposals


def test_a_folder_has_one_campaign_at_a_time(tmp_path: Path) -> None:
    def start_another(_: Sequence[Request]) -> None:
        with pytest.raises(CostModelError, match="must have one writer"):
            campaign(tmp_path).run()

    collector = FakeCollector(before_batch=start_another)
    assert campaign(tmp_path, collector=collector).run().stored == len(collector.measured)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match=r"file/out must be a folder for measurements, but .* Not a dir"):
        campaign(tmp_path / "file" / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user whom permissions stop; root may write anywhere")
@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_cannot_be_written(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "out"
    (folder / "proposals").mkdir(parents=True) if made else folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(CostModelError, match="Permission denied"):
        campaign(folder)


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CostModelError, match=r"Cannot write .*campaign\.json: No space left on device"):
        campaign(tmp_path)


def test_a_disk_that_fills_up_later_ends_the_run_with_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workloads run at once; what one of them meets must not come as a group of errors."""
    synced: list[int] = []
    fsync = os.fsync

    def fill_up(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == CampaignFolder(tmp_path).store:
            if len(synced) == 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(CostModelError, match=r"Cannot write record store .*: No space left on device"):
        campaign(tmp_path).run()
    monkeypatch.undo()
    kept = stored(CampaignFolder(tmp_path))
    assert kept
    assert collect(tmp_path).items() >= kept.items()


def test_what_the_caller_raises_comes_through(tmp_path: Path) -> None:
    def fail(_: Measurement) -> None:
        raise ZeroDivisionError("bug")

    with pytest.raises(ZeroDivisionError, match="bug"):
        campaign(tmp_path).run(on_measurement=fail)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    def interrupt(_: Sequence[Request]) -> None:
        if len(collector.batches) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    collector = FakeCollector(seconds=0.001, before_batch=interrupt)
    with pytest.raises(KeyboardInterrupt):
        campaign(tmp_path, collector=collector).run()
    assert stored(CampaignFolder(tmp_path)).keys() <= set(collector.measured)
    campaign(tmp_path).run()
    assert stored(CampaignFolder(tmp_path)) == collect(tmp_path / "whole")


def test_a_campaign_runs_inside_an_event_loop_as_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> None:
        assert campaign(tmp_path / "inside").run().finished

    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(cell())
    assert stored(CampaignFolder(tmp_path / "inside")).keys() == collect(tmp_path / "outside").keys()


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_ends_a_campaign_inside_an_event_loop_is_raised(
    tmp_path: Path, error: type[BaseException]
) -> None:
    seen: list[Measurement] = []

    def end(measurement: Measurement) -> None:
        seen.append(measurement)
        if error is not KeyboardInterrupt:
            raise error("bug")
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    async def cell() -> None:
        campaign(tmp_path, collector=FakeCollector(seconds=0.001)).run(on_measurement=end)

    with closing(asyncio.new_event_loop()) as loop, pytest.raises(error):
        loop.run_until_complete(cell())
    assert len(stored(CampaignFolder(tmp_path))) < len(collect(tmp_path / "whole"))
    assert campaign(tmp_path).run().finished  # the store was closed: a later run goes on


def test_a_draw_whose_worker_dies_is_made_once_more(tmp_path: Path) -> None:
    found = collect(tmp_path / "undisturbed")
    dying = FakeCollector(dying_draws=(1, 5))
    campaign(tmp_path / "dying", collector=dying).run()
    assert stored(CampaignFolder(tmp_path / "dying")) == found
    assert files(tmp_path / "dying") == files(tmp_path / "undisturbed")
    assert len(dying.draws) == 9 + 2


def test_a_draw_that_fails_twice_is_made_at_random(tmp_path: Path, caplog) -> None:
    collect(tmp_path / "undisturbed")
    # Draws 1 to 3 are the first rounds; 4 and 5 the second round of two workloads, or of one that fails.
    dying = FakeCollector(dying_draws=range(4, 10))
    report = campaign(tmp_path / "dying", collector=dying).run()
    assert report.finished
    failed = [record.getMessage() for record in caplog.records]
    assert len(failed) == 6
    assert all("round 1, failed: A worker process must live" in message for message in failed)
    undisturbed, found = files(tmp_path / "undisturbed"), files(tmp_path / "dying")
    for name in (f"proposals/{w}.1.json" for w in CONFIG.workloads):
        assert len(msgspec.json.decode(found[name])) == CONFIG.kernels.per_round
        assert found[name] != undisturbed[name]


def test_a_round_that_cannot_be_drawn_stays_empty(tmp_path: Path, caplog) -> None:
    collector = FakeCollector(dying_draws=range(4, 13))
    assert campaign(tmp_path, collector=collector).run().finished
    for name in CONFIG.workloads:
        folder = CampaignFolder(tmp_path)
        rounds = [folder.proposals(Workload.parse(name), round_) for round_ in range(3)]
        assert [len(candidates or []) for candidates in rounds] == [10, 0, 5]
    assert len(caplog.records) == 9


def test_a_draw_whose_engine_is_lost_leaves_no_round_empty(tmp_path: Path) -> None:
    collector = FakeCollector(dying_draws=(5,), death=EngineLostError("The scheduler was lost."))
    with pytest.raises(EngineLostError):
        campaign(tmp_path / "lost", collector=collector).run()
    collect(tmp_path / "lost")
    assert stored(CampaignFolder(tmp_path / "lost")) == collect(tmp_path / "undisturbed")


def test_without_a_draw_only_what_is_in_the_folder_is_measured(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path)
    folder.claim(CONFIG)
    workload = Workload.parse(CONFIG.workloads[0])
    drawn = draw_tiles(workload, "cuda", 4, 0, measured=(), budgets=())
    folder.write_proposals(workload, 1, drawn)
    collector = FakeCollector()
    assert Campaign(CONFIG, collector, folder, None).run().finished
    assert collector.draws == []
    found = stored(folder).values()
    assert {m.candidate.candidate_id for m in found} == {c.candidate_id for c in drawn}
    assert sum(m.visit == 0 for m in found) == 4 * 3
    assert len(list(tmp_path.glob("proposals/*"))) == 1


def test_rounds_that_were_drawn_before_are_measured_as_one(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path)
    folder.claim(CONFIG)
    chosen: dict[str, set[str]] = {}
    for name in CONFIG.workloads:
        for round_ in range(2):
            tiles = draw_tiles(Workload.parse(name), "cuda", 6, round_, measured=(), budgets=())
            folder.write_proposals(Workload.parse(name), round_, tiles)
            chosen.setdefault(name, set()).update(each.candidate_id for each in tiles)
    collector = FakeCollector()
    assert Campaign(CONFIG, collector, folder, draw_tiles).run().finished
    drawn = [(name, len(options["measured"])) for name, _, _, options in collector.draws]
    # The third round alone is drawn, from what both others gave on three budgets.
    assert sorted(drawn) == sorted((name, 3 * len(ids)) for name, ids in chosen.items())
    first = [request for batch in collector.batches for request in batch][
        : 3 * len(chosen[CONFIG.workloads[0]])
    ]
    assert {request.candidate.candidate_id for request in first} == chosen[CONFIG.workloads[0]]


@pytest.mark.tvm
def test_a_random_draw_begins_with_what_an_author_would_take() -> None:
    workload, source = Workload.parse("cuda.transpose-m64-n64"), CudaSource()
    space = source.space(workload, "cuda")
    drawn = draw_at_random(workload, "cuda", 3, 7, measured=(), budgets=(8,), source=source)
    assert drawn[0].config == space.default
    assert len({each.candidate_id for each in drawn}) == 3
    assert draw_at_random(workload, "cuda", 1, 7, measured=(), budgets=(8,), source=source) == drawn[:1]
    measured = [
        Measurement(
            candidate=each,
            platform=FakeCollector().platform(8),
            outcome=Outcome.OK,
            latencies_s=(1e-6,),
            measured_at="",
        )
        for each in drawn
    ]
    more = draw_at_random(workload, "cuda", 3, 7, measured=measured, budgets=(8,), source=source)
    assert not {each.candidate_id for each in more} & {each.candidate_id for each in drawn}


def test_a_random_draw_repeats_no_measured_candidate() -> None:
    pytest.importorskip("tvm")
    workload, platform = Workload.parse("softmax-m4-n4"), FakeCollector().platform(8)
    drawn: list[Candidate] = []
    for _ in range(3):  # with the same seed, by which it would draw the same again
        measured = [
            Measurement(
                candidate=c, platform=platform, outcome=Outcome.OK, latencies_s=(1e-6,), measured_at=""
            )
            for c in drawn
        ]
        twice = [*measured, *measured]
        drawn += draw_at_random(workload, "cpu", 4, 7, measured=twice, budgets=(8,), source=MetaSchedule())
    ids = [candidate.candidate_id for candidate in drawn]
    assert len(set(ids)) == len(ids) > 4
