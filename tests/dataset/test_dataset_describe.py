"""The description against plain Python over the records that the dataset was made of."""

import math
from collections import Counter, defaultdict
from pathlib import Path
from statistics import geometric_mean

import msgspec
import numpy as np
import pytest
from fake_records import BUDGETS, DEVICE, WORKLOADS, fake_measurement, fake_measurements

from costmodel.dataset import Describer, describe, load_dataset
from costmodel.dataset.publish._card import summary_tables
from costmodel.dataset.publish._describe import visit_shifts
from costmodel.dataset.publish._plots import _panel, write_plots
from costmodel.dataset.publish._tasks import Budget
from costmodel.dataset.table._read import dataset_from_measurements, iter_datasets
from costmodel.records import Measurement, Outcome

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace


@pytest.fixture
def noisy() -> list[Measurement]:
    """The fake measurements with every repeat off by some percent, and latencies over several decades."""
    rng = np.random.default_rng(0)
    scale = dict(zip(WORKLOADS, (0.1, 1.0, 30.0), strict=True))
    return [
        replace(
            m,
            latencies_s=tuple(
                scale[m.candidate.workload.name] * t * float(np.exp(rng.normal(0, 0.03)))
                for t in m.latencies_s
            ),
        )
        for m in fake_measurements()
    ]


def latencies(records: list[Measurement]) -> dict[tuple[str, int], dict[str, float]]:
    """Task to candidate to latency, the geometric mean over visits."""
    visits: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for m in records:
        key = (m.candidate.workload.name, m.platform.sms_granted, m.candidate.candidate_id)
        visits[key].append(m.latency_s)
    found: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for (workload, sms, candidate), values in visits.items():
        found[workload, sms][candidate] = geometric_mean(values) if max(values) < math.inf else math.inf
    return found


@pytest.mark.parametrize("hashed", [True, False])
def test_kernels_count_once_and_only_those_that_never_fail(hashed: bool) -> None:
    def with_hash(m: Measurement) -> Measurement:
        twins = f"{m.candidate.workload.name}{int(m.candidate.candidate_id, 16) % 3}"
        return replace(m, kernel_hash=twins if hashed else "")

    records = [with_hash(m) for m in fake_measurements()]
    fails = {m.candidate.candidate_id for m in records if m.outcome is not Outcome.OK}
    working = {
        (m.candidate.workload.name, m.kernel_hash or m.candidate.candidate_id)
        for m in records
        if m.candidate.candidate_id not in fails
    }
    expected = Counter(name for name, _ in working)
    assert 0 < len(fails) < len({m.candidate.candidate_id for m in records})
    description = describe(dataset_from_measurements(records))
    assert description.working_kernels == dict(expected)
    distinct = {m.kernel_hash for m in records}
    assert description.kernels == (len(distinct) if hashed else None)
    counts = dict(summary_tables(description)[0].rows)
    assert counts["distinct kernels"] == (str(len(distinct)) if hashed else "not recorded")


def test_tasks_and_budget_gaps(noisy: list[Measurement]) -> None:
    expected = latencies(noisy)
    description = describe(dataset_from_measurements(noisy))
    assert {(t.workload, t.sms_granted) for t in description.tasks} == set(expected)
    gaps = defaultdict(list)
    for task in description.tasks:
        values = expected[task.workload, task.sms_granted]
        working = [v for v in values.values() if v < math.inf]
        full = expected[task.workload, 132]
        gap = values[min(full, key=full.__getitem__)] / min(working) - 1
        gaps[task.sms_granted].append((gap, task.workload))
        assert task.budget_gap == pytest.approx(gap)
        assert task.best_latency_s == pytest.approx(min(working))
        assert task.near_best_share == sum(v <= 1.1 * min(working) for v in working) / len(working)
        assert task.spread == pytest.approx(math.log10(max(working) / min(working)))
    assert max(gap for gap, _ in gaps[8]) > 0.05
    for budget in description.budgets:
        pairs = gaps[budget.sms_granted]
        assert budget.tasks == len(WORKLOADS)
        assert budget.mean_gap == pytest.approx(geometric_mean([1 + gap for gap, _ in pairs]) - 1)
        assert budget.worst_gap == pytest.approx(max(pairs)[0])
        if max(pairs)[0] > 0:
            assert budget.worst_workload == max(pairs)[1]
    assert [budget.sms_granted for budget in description.budgets] == sorted(BUDGETS)
    assert description.budgets[-1].worst_gap == 0.0


def test_counts(noisy: list[Measurement]) -> None:
    description = describe(dataset_from_measurements(noisy))
    assert (description.workloads, description.candidates, description.kernels) == (3, 15, 15)
    assert (description.platforms, description.measurements) == (4, len(noisy))
    assert description.outcomes == dict(Counter(str(m.outcome) for m in noisy))
    assert description.devices == (DEVICE.name,)
    assert description.software == {"driver": "580.1", "tvm": "0.27"}
    assert (description.measured_from, description.measured_to) == ("2026-11-21", "2026-11-21")
    totals: Counter[str] = Counter()
    for task in description.tasks:
        totals.update(task.outcomes)
        if task.sms_granted == 8:
            assert task.outcomes == {"ok": 6, "launch_error": 1}
    assert totals == Counter(description.outcomes)


def test_noise(noisy: list[Measurement]) -> None:
    noise = describe(dataset_from_measurements(noisy)).noise
    medians = {(m.candidate.candidate_id, m.platform.name, m.visit): m.latency_s for m in noisy}
    shifts = defaultdict(list)
    for (candidate, platform, visit), second in medians.items():
        if visit == 1:
            first = medians[candidate, platform, 0]
            shifts[math.floor(math.log10(first))].append(abs(second / first - 1))
    every = [shift for group in shifts.values() for shift in group]
    assert noise.visits.count == len(every) == 24
    assert noise.visits.median == pytest.approx(np.percentile(every, 50))
    assert noise.visits.p90 == pytest.approx(np.percentile(every, 90))
    assert noise.visits.p99 == pytest.approx(np.percentile(every, 99))
    assert noise.visits.max == pytest.approx(max(every))
    names = {
        -7: "100 ns - 1 us",
        -6: "1 us - 10 us",
        -5: "10 us - 100 us",
        -4: "100 us - 1 ms",
        -3: "1 ms - 10 ms",
    }
    assert list(noise.visits_by_latency) == [names[decade] for decade in sorted(shifts)]
    assert len(shifts) > 2
    assert [q.count for q in noise.visits_by_latency.values()] == [len(shifts[d]) for d in sorted(shifts)]
    ok = [m for m in noisy if m.latencies_s]
    spreads = [(max(m.latencies_s) - min(m.latencies_s)) / m.latency_s for m in ok]
    assert noise.repeats.count == len(ok)
    assert noise.repeats.p90 == pytest.approx(np.percentile(spreads, 90))


def test_a_failing_choice_an_unmeasured_choice_and_a_task_where_all_fail() -> None:
    def gaps(records: list[Measurement]) -> dict[int, float]:
        return {t.sms_granted: t.budget_gap for t in describe(dataset_from_measurements(records)).tasks}

    wins_at_132 = fake_measurement(tile=1, sms=132)
    other = fake_measurement(tile=16, sms=132)
    assert wins_at_132.latency_s < other.latency_s
    at_8 = fake_measurement(tile=16, sms=8)
    failed = fake_measurement(tile=1, sms=8, outcome=Outcome.TIMEOUT)
    assert gaps([wins_at_132, other, at_8, failed])[8] == math.inf
    assert math.isnan(gaps([wins_at_132, other, at_8])[8])
    assert math.isnan(gaps([wins_at_132, other, failed])[8])
    nothing = [fake_measurement(tile=1, sms=132, outcome=Outcome.TIMEOUT), at_8]
    assert all(math.isnan(gap) for gap in gaps(nothing).values())


def test_a_failing_choice_shows_in_tables_and_pictures(tmp_path: Path) -> None:
    records = [
        fake_measurement(tile=1, sms=132),
        fake_measurement(tile=16, sms=8),
        fake_measurement(tile=1, sms=8, outcome=Outcome.TIMEOUT),
        fake_measurement(tile=1, sms=32, outcome=Outcome.TIMEOUT),
    ]
    describer = Describer()
    describer.add(dataset_from_measurements(records))
    description = describer.description()
    gap_table = summary_tables(description)[-1]
    assert gap_table.header == ("workload \\ SMs", "8", "32", "132")
    assert gap_table.rows == ((WORKLOADS[0], "fails", "-", "-"),)  # one kernel is no choice
    for name in write_plots(description, describer.shifts, tmp_path / "plots"):
        assert (tmp_path / "plots" / name).read_bytes().startswith(b"\x89PNG")


def test_the_colour_bar_leaves_the_name_of_a_device_with_one_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = []

    def keep(figure: object, file: Path) -> None:
        figures.append(figure)

    monkeypatch.setattr("costmodel.dataset.publish._plots._save", keep)
    one = fake_measurement()
    device = replace(DEVICE, name="NVIDIA GeForce RTX 3060 Laptop GPU")
    describer = Describer()
    describer.add(dataset_from_measurements([replace(one, platform=replace(one.platform, device=device))]))
    write_plots(describer.description(), describer.shifts, tmp_path)
    assert len(figures) >= 2
    for figure in (figures[0], figures[-1]):  # the heat maps
        figure.draw_without_rendering()
        panel, bar = figure.axes
        assert panel.title.get_window_extent().x1 < bar.get_window_extent().x0


def test_of_very_many_kinds_those_of_one_workload_share_a_row_of_the_pictures() -> None:
    few = {f"some.kind{i}-m{size}": i + size for i in range(3) for size in range(1, 3)}
    many = few | {f"some.alone{i}-m1": i for i in range(300)}
    budget = Budget("GPU/132", "GPU", "132", 132, 0, 0.0, 0.0, "")
    for gaps, rows in ((few, [3, 5, 7]), (many, [sum(range(300)), 3, 5, 7])):
        of_task = {(workload, budget.platform): gap for workload, gap in gaps.items()}
        panel = _panel("GPU", [budget], of_task, lambda cells: (float(sum(cells)), ""))
        assert panel.shades.ravel().tolist() == rows
    assert panel.kinds == ["300 kinds of one workload", "some.kind0", "some.kind1", "some.kind2"]


def test_devices_and_mechanisms_are_told_apart() -> None:
    green = fake_measurement(sms=32)
    mps = replace(green, platform=replace(green.platform, isolation="mps"))
    other = replace(green, platform=replace(green.platform, device=replace(DEVICE, name="Other GPU")))
    *_, first, second = summary_tables(describe(dataset_from_measurements([green, mps, other])))
    assert ("Other GPU" in first.title, first.header[1:]) == (True, ("32",))
    assert ("Test GPU" in second.title, second.header[1:]) == (True, ("32", "32 MPS"))


def test_coverage_and_flatness_against_sets(noisy: list[Measurement]) -> None:
    first, second, third = WORKLOADS
    tiles = {first: (1, 2), second: (1,)}
    records = [
        m
        for m in noisy
        if m.platform.sms_granted != 8
        or m.candidate.config.decisions["tile"] in tiles.get(m.candidate.workload.name, ())
        if (m.candidate.workload.name, m.candidate.config.decisions["tile"]) != (third, 16)
    ]
    description = describe(dataset_from_measurements(records))
    known = defaultdict(set)
    measured = defaultdict(set)
    for m in records:
        known[m.candidate.workload.name].add(m.candidate.candidate_id)
        measured[m.candidate.workload.name, m.platform.name].add(m.candidate.candidate_id)
    platforms = [budget.platform for budget in description.budgets]
    assert [(c.workload, c.platform) for c in description.coverage] == [
        (workload, platform) for workload in sorted(WORKLOADS) for platform in platforms
    ]
    flatness = {(t.workload, t.platform): t.near_best_share for t in description.tasks}
    for cell in description.coverage:
        here = len(measured[cell.workload, cell.platform])
        assert (cell.known, cell.measured) == (len(known[cell.workload]), here)
        assert cell.share == here / len(known[cell.workload])
        share = flatness.get((cell.workload, cell.platform), math.nan)
        assert cell.near_best_share == pytest.approx(share, nan_ok=True)
    table = summary_tables(description)[4]
    assert table.rows[0][1:4] == ("2 of 3", "3 of 10", "30.0%")
    assert table.rows[1][1:4] == ("3 of 3", "14 of 14", "100.0%")


def test_a_dataset_is_described_the_same_a_workload_at_a_time() -> None:
    parts = list(iter_datasets())
    assert len(parts) == len({part.measured_workloads[0] for part in parts}) > 20
    describer = Describer()
    for part in parts:
        assert len(set(part.measured_workloads)) == 1
        describer.add(part)
    whole = load_dataset()
    assert repr(describer.description()) == repr(describe(whole))
    assert len(describer.shifts) == len(visit_shifts(whole.measurements))
