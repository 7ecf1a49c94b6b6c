import os
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from fake_collector import CONFIG, FakeCollector, files

from costmodel.collect import Campaign, CampaignConfig, KernelPlan
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Measurement, Outcome, RecordStore, read_records

replace = msgspec.structs.replace
ALL = 3 * (10 + 2 * 5) * 3  # workloads x kernels x budgets


def collect(folder: Path, config: CampaignConfig = CONFIG) -> list[Measurement]:
    """What an uninterrupted campaign stores."""
    campaign = Campaign(config, FakeCollector(), folder)
    assert campaign.run().finished
    return list(read_records(campaign.store_path))


def repeated(measurements: list[Measurement]) -> set[tuple[str, str]]:
    """Candidate and platform of each repeat."""
    return {(m.candidate.candidate_id, m.platform.platform_id) for m in measurements if m.visit == 1}


def test_everything_asked_for_is_measured_once(tmp_path: Path) -> None:
    collector = FakeCollector()
    campaign = Campaign(CONFIG, collector, tmp_path)
    seen: list[Measurement] = []
    report = campaign.run(on_measurement=seen.append)
    first = [m for m in seen if m.visit == 0]
    grid = {(m.candidate.workload.name, m.candidate.candidate_id, m.platform.sms_requested) for m in first}
    assert campaign.total == len(first) == len(grid) == ALL
    assert {name for name, _, _ in grid} == set(CONFIG.workloads)
    assert {sms for _, _, sms in grid} == set(CONFIG.sms)
    assert seen == list(read_records(tmp_path / "measurements.jsonl"))
    assert (report.finished, report.measured, report.stored) == (True, len(seen), len(seen))
    failed = sum(m.outcome is Outcome.LAUNCH_ERROR for m in seen)
    assert 0 < failed < len(seen)
    assert report.outcomes == {"launch_error": failed, "ok": len(seen) - failed}


def test_the_same_seed_proposes_the_same(tmp_path: Path) -> None:
    collect(tmp_path / "a")
    collect(tmp_path / "b")
    collect(tmp_path / "c", replace(CONFIG, seed=1))
    a, b, c = (files(tmp_path / name) for name in "abc")
    assert a == b
    proposals = [name for name in a if name.startswith("proposals/")]
    assert len(proposals) == 3 * 3  # workloads x rounds
    assert not any(a[name] == c[name] for name in proposals)


def test_later_rounds_draw_near_the_fastest_of_each_parent_budget(tmp_path: Path) -> None:
    collector = FakeCollector()
    Campaign(CONFIG, collector, tmp_path).run()
    stored = list(read_records(tmp_path / "measurements.jsonl"))
    for name in CONFIG.workloads:
        draws = [(count, options) for drawn, count, options in collector.draws if drawn == name]
        assert [count for count, _ in draws] == [10, 5, 5]
        for round_, (_, options) in enumerate(draws):
            proposals = [
                msgspec.json.decode(
                    (tmp_path / f"proposals/{name}.{r}.json").read_bytes(), type=list[Candidate]
                )
                for r in range(round_)
            ]
            known = [candidate for proposal in proposals for candidate in proposal]
            assert options["known"] == known
            fastest = defaultdict(list)
            for m in sorted(stored, key=lambda m: m.latency_s):
                if m.candidate in known and m.visit == 0 and m.outcome is Outcome.OK:
                    fastest[m.platform.sms_requested].append(m.candidate.config)
            assert {c.config_id for c in options["parents"]} == {
                c.config_id for sms in (8, 132) for c in fastest[sms][:2]
            }


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
    stored = collect(tmp_path, replace(CONFIG, kernels=KernelPlan(random=20)))
    for name in CONFIG.workloads:
        visits = [m.visit for m in stored if m.candidate.workload.name == name]
        assert visits == sorted(visits)
        assert visits[-1] == 1


def test_a_time_limit_stops_between_measurements_and_a_later_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninterrupted = collect(tmp_path / "whole")
    collector = FakeCollector()
    # Each measurement takes a second of this clock; one is started at 0 s, 1 s, ... 40 s.
    clock = SimpleNamespace(monotonic=lambda: float(len(collector.measured)))
    monkeypatch.setattr("costmodel.collect._campaign.time", clock)
    folder, runs = tmp_path / "parts", 0
    stored: list[Measurement] = []
    while len(stored) < len(uninterrupted):
        collector = FakeCollector()
        report = Campaign(CONFIG, collector, folder).run(time_limit_s=40.0)
        before, stored = stored, list(read_records(folder / "measurements.jsonl"))
        runs += 1
        assert report.measured == len(stored) - len(before) == min(41, len(uninterrupted) - len(before))
        assert report.finished == (len(stored) == len(uninterrupted))
        assert stored[: len(before)] == before
    assert runs > 4
    assert files(folder) == files(tmp_path / "whole")


def test_a_finished_campaign_measures_and_builds_nothing(tmp_path: Path) -> None:
    stored = collect(tmp_path)
    collector = FakeCollector()
    seen: list[Measurement] = []
    campaign = Campaign(CONFIG, collector, tmp_path)
    report = campaign.run(on_measurement=seen.append)
    assert (report.finished, report.measured, report.stored) == (True, 0, len(stored))
    assert seen == stored
    assert collector.draws == collector.prefetched == collector.measured == []
    assert campaign.run() == report


def test_a_resumed_campaign_builds_only_what_is_not_measured(tmp_path: Path) -> None:
    stored = collect(tmp_path)
    path = tmp_path / "measurements.jsonl"
    path.unlink()
    with RecordStore(path) as store:
        store.append(stored[:40])
    collector = FakeCollector()
    Campaign(CONFIG, collector, tmp_path).run()
    missing = {m.candidate.candidate_id for m in stored[40:]}
    assert {candidate.candidate_id for candidate in collector.prefetched} == missing
    assert collector.measured == [m.key for m in stored[40:]]


def test_a_small_space_ends_early(tmp_path: Path) -> None:
    plan = KernelPlan(random=1990, rounds=1, per_round=30, parents=1, parents_at=(8,))
    config = replace(CONFIG, workloads=CONFIG.workloads[:1], sms=(8,), kernels=plan, repeat_share=0.0)
    # At most 18 tiles are near the parent, most of them known.
    stored = collect(tmp_path, config)
    assert 1990 <= len(stored) < 1990 + 18
    assert len({m.key for m in stored}) == len(stored)


@pytest.mark.parametrize(
    "other",
    [
        replace(CONFIG, seed=1),
        replace(CONFIG, sms=(8, 132)),
        replace(CONFIG, kernels=replace(CONFIG.kernels, random=11)),
        replace(CONFIG, repeat_share=0.5),
    ],
)
def test_the_folder_of_another_campaign_is_left_alone(tmp_path: Path, other: CampaignConfig) -> None:
    collect(tmp_path)
    before = files(tmp_path)
    with pytest.raises(CostModelError, match=r"must hold this campaign or none, .*campaign\.json differs"):
        Campaign(other, FakeCollector(), tmp_path)
    assert files(tmp_path) == before


def test_a_folder_has_one_campaign_at_a_time(tmp_path: Path) -> None:
    def start_another(_: str) -> None:
        with pytest.raises(CostModelError, match="must have one writer"):
            Campaign(CONFIG, FakeCollector(), tmp_path).run()

    collector = FakeCollector(on_measure=start_another)
    assert Campaign(CONFIG, collector, tmp_path).run().stored == len(collector.measured)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match=r"file/out must be a folder for measurements, but .* Not a dir"):
        Campaign(CONFIG, FakeCollector(), tmp_path / "file" / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user whom permissions stop; root may write anywhere")
@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_cannot_be_written(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "out"
    (folder / "proposals").mkdir(parents=True) if made else folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(CostModelError, match="Permission denied"):
        Campaign(CONFIG, FakeCollector(), folder)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "campaign.partial").symlink_to("/dev/full")
    with pytest.raises(CostModelError, match=r"Cannot write .*campaign\.json: No space left on device"):
        Campaign(CONFIG, FakeCollector(), tmp_path)


def test_a_budget_that_cannot_be_granted_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="but got 133"):
        Campaign(replace(CONFIG, sms=(8, 133)), FakeCollector(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_draw_whose_worker_dies_is_made_again(tmp_path: Path) -> None:
    Campaign(CONFIG, FakeCollector(), tmp_path / "undisturbed").run()
    Campaign(CONFIG, FakeCollector(dying_draws=(1, 5)), tmp_path / "dying").run()
    assert files(tmp_path / "dying") == files(tmp_path / "undisturbed")


def test_a_draw_whose_workers_die_twice_ends_the_campaign_and_loses_nothing(tmp_path: Path) -> None:
    measured = []
    with pytest.raises(CostModelError, match=r"it died \(exit code -9\)"):
        Campaign(CONFIG, FakeCollector(dying_draws=(4, 5, 6, 7)), tmp_path).run(
            on_measurement=measured.append
        )
    assert measured
    assert list(read_records(tmp_path / "measurements.jsonl")) == measured
