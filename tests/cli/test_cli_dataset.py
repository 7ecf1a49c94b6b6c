import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.dataset import find_dataset
from costmodel.dataset.table._files import hash_dataset
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box

CARD = """
title = "Fake kernels"
summary = "For tests."
method = "Not at all."
limits = "Not real."
licence = "CC-BY-4.0"
citation = "Nobody, 2026."
"""


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


def assert_refused(result: Result, text: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert text in result.stderr


@pytest.fixture
def card(tmp_path: Path) -> Path:
    file = tmp_path / "card.toml"
    file.write_text(CARD)
    return file


def test_build_reports_what_it_did(store: Path, card: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "out", tmp_path / "report.json"
    result = costmodel("dataset", "build", store, store, "--out", out, "--card", card, "--json", report)
    assert result.exit_code == 0
    assert "84 of 168 records, 84 dropped as duplicates, 0 rejected" in result.stdout
    assert json.loads(report.read_text()) == {
        "path": str(out),
        "sha256": hash_dataset(out),
        "records": 168,
        "measurements": 84,
        "duplicates": 84,
        "rejects": {},
        "findings": [],
    }


def test_describe_shows_counts_noise_and_gap(built: Path, tmp_path: Path) -> None:
    file, plots = tmp_path / "d.json", tmp_path / "plots"
    result = costmodel("dataset", "describe", built, "--json", file, "--plots", plots)
    assert result.exit_code == 0
    for text in ("Counts", "Noise", "Budget gap", "softmax-m512-n512", "Test GPU/whole/132", "100 us - 1 ms"):
        assert text in result.stdout
    written = json.loads(file.read_text())
    assert written["description"]["measurements"] == 84
    assert written["sha256"] == hash_dataset(built)
    assert {entry.name for entry in plots.iterdir()} == {"budget_gap.png", "noise.png", "coverage.png"}


def test_a_record_store_is_described_as_the_dataset_that_it_becomes(
    store: Path, built: Path, tmp_path: Path
) -> None:
    described = []
    for place in (store, built):
        file = tmp_path / "d.json"
        result = costmodel("dataset", "describe", place, "--json", file)
        assert result.exit_code == 0
        described.append(json.loads(file.read_text())["description"])
    assert described[0] == described[1]
    assert "would not enter" not in result.stdout


def test_of_a_file_of_another_program_what_would_enter_is_described(tmp_path: Path) -> None:
    table, columns, file = tmp_path / "runs.csv", tmp_path / "map.toml", tmp_path / "d.json"
    table.write_text("tile,run\n1,0.5\n2,0.25\n3,none\n")
    columns.write_text(
        'workload = "mine.sum-x4096"\ndevice = "RTX 3090"\nisolation = "whole"\n'
        '[parameters]\ntile = "tile"\n[latency]\ncolumns = ["run"]\nunit = "ms"\n'
    )
    result = costmodel("dataset", "describe", table, "--columns", columns, "--json", file)
    assert result.exit_code == 0
    assert "1 records would not enter" in result.stdout
    assert json.loads(file.read_text())["description"]["measurements"] == 2
    assert_refused(costmodel("dataset", "describe", table), "--columns map.toml")


def test_describe_takes_the_shipped_dataset_if_none_is_named() -> None:
    result = costmodel("dataset", "describe")
    try:
        place = find_dataset()
    except CostModelError as error:
        assert_refused(result, str(error))
    else:
        assert str(place) in result.stdout


def test_wrong_datasets(built: Path, tmp_path: Path) -> None:
    assert_refused(costmodel("dataset", "describe", tmp_path / "nowhere"), "nowhere is not there")
    foreign = tmp_path / "notes.txt"
    foreign.write_text("hello")
    assert_refused(
        costmodel("dataset", "describe", foreign), f"{foreign} must be a file of measurements, but it looks"
    )
    file = built / "measurements.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    assert_refused(costmodel("dataset", "describe", built), "must match its checksum")
    (built / "SHA256SUMS").unlink()
    assert_refused(costmodel("dataset", "describe", built), "damaged or in another format")


def test_wrong_stores_and_cards(store: Path, card: Path, tmp_path: Path) -> None:
    def build(store: Path, card: Path) -> Result:
        return costmodel("dataset", "build", store, "--out", tmp_path / "out", "--card", card)

    assert_refused(build(tmp_path / "nowhere.jsonl", card), "No such file")
    assert_refused(build(store, tmp_path / "nowhere.toml"), "nowhere.toml: No such file")
    assert_refused(build(card, card), "it looks like TOML")
    store.write_bytes(store.read_bytes().replace(b"latencies", b"latencees", 1))
    assert_refused(build(store, card), "line 1 is damaged (its checksum differs)")
    assert not (tmp_path / "out").exists()


def test_diff_of_a_dataset_and_one_with_less(store: Path, built: Path, card: Path, tmp_path: Path) -> None:
    assert costmodel("dataset", "diff", built, built).exit_code == 0
    less, report = tmp_path / "less.jsonl", tmp_path / "diff.json"
    less.write_text("".join(store.read_text().splitlines(keepends=True)[:-7]))
    assert costmodel("dataset", "build", less, "--out", tmp_path / "less", "--card", card).exit_code == 0
    result = costmodel("dataset", "diff", built, tmp_path / "less", "--json", report)
    assert result.exit_code == 1
    found = json.loads(report.read_text())
    assert found["first"]["sha256"] == hash_dataset(built)
    workloads = found["diff"]["workloads"]
    assert sum(w["left"] for w in workloads) == 7
    assert sum(w["equal"] for w in workloads) == 84 - 7
    assert sum(w["right"] + w["changed"] for w in workloads) == 0


def test_diff_of_what_is_no_dataset_is_refused(built: Path, tmp_path: Path) -> None:
    assert_refused(costmodel("dataset", "diff", built, tmp_path / "absent"), "absent")


def test_merge_of_two_parts_is_the_whole(store: Path, built: Path, card: Path, tmp_path: Path) -> None:
    lines = store.read_text().splitlines(keepends=True)
    parts = []
    for name, some in (("a", lines[:50]), ("b", lines[40:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(some))
        parts.append(tmp_path / name)
        built_part = costmodel(
            "dataset", "build", tmp_path / f"{name}.jsonl", "--out", parts[-1], "--card", card
        )
        assert built_part.exit_code == 0
    out = tmp_path / "merged"
    result = costmodel("dataset", "merge", *parts, "--out", out, "--card", card)
    assert result.exit_code == 0
    assert "84 of 94 records, 10 dropped as duplicates, 0 rejected" in result.stdout
    assert hash_dataset(out) == hash_dataset(built)


def test_only_datasets_are_merged(store: Path, card: Path, tmp_path: Path) -> None:
    result = costmodel("dataset", "merge", store, "--out", tmp_path / "merged", "--card", card)
    assert_refused(result, "parquet")
    assert not (tmp_path / "merged").exists()


def test_a_campaign_is_appended_to_a_dataset_in_parts(
    store: Path, built: Path, card: Path, tmp_path: Path
) -> None:
    lines = store.read_text().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_text("".join(lines[:50]))
    (tmp_path / "b.jsonl").write_text("".join(lines[40:]))
    parts, report = tmp_path / "parts", tmp_path / "report.json"
    by_workload = ("--out", parts, "--card", card, "--partition-by", "workload")
    assert costmodel("dataset", "build", tmp_path / "a.jsonl", *by_workload).exit_code == 0
    result = costmodel("dataset", "append", parts, tmp_path / "b.jsonl", "--json", report)
    assert "34 of 44 records, 10 dropped as duplicates, 0 rejected" in result.stdout
    assert json.loads(report.read_text())["sha256"] == hash_dataset(parts)
    assert "Both hold the same." in costmodel("dataset", "diff", parts, built).stdout
    assert "Nothing is wrong with them." in costmodel("dataset", "validate", parts).stdout
    assert hash_dataset(parts)[:16] in costmodel("dataset", "describe", parts).stdout
    merged = costmodel("dataset", "merge", parts, "--out", tmp_path / "one", "--card", card)
    assert merged.exit_code == 0
    assert hash_dataset(tmp_path / "one") == hash_dataset(built)
    assert_refused(costmodel("dataset", "append", built, store), "--partition-by")
