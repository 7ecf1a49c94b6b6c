import json
import re
from pathlib import Path

import pytest
from command_line import parse
from fake_foreign import COLUMN_MAP, PLATFORM_TOML, csv_text, fake_records, fake_rows, fake_t4, write_database
from test_cli_dataset import CARD, assert_refused, costmodel

from costmodel.dataset._export import EXPORT_FORMATS

pytestmark = pytest.mark.white_box


@pytest.fixture
def card(tmp_path: Path) -> Path:
    file = tmp_path / "card.toml"
    file.write_text(CARD)
    return file


def test_the_command_knows_every_format() -> None:
    for name in EXPORT_FORMATS:
        parse(f"costmodel dataset export sm-budgets --out out --format {name}")
    refused = costmodel("dataset", "export", "sm-budgets", "--out", "out", "--format", "other")
    expected = ["other", *EXPORT_FORMATS]
    assert re.findall(r"'([\w-]+)'", refused.stderr)[-len(expected) :] == expected


def test_an_export_comes_back(store: Path, card: Path, tmp_path: Path) -> None:
    built, report = tmp_path / "built", tmp_path / "report.json"
    assert costmodel("dataset", "build", store, "--out", built, "--card", card).exit_code == 0
    out = tmp_path / "caches"
    result = costmodel("dataset", "export", built, "--format", "kernel-tuner", "--out", out, "--json", report)
    assert result.exit_code == 0
    assert "84 measurements in 12 files" in result.stdout
    written = json.loads(report.read_text())
    assert written["measurements"] == 84
    assert sorted(written["files"]) == sorted(str(file) for file in out.iterdir())
    again = costmodel("dataset", "build", *out.iterdir(), "--out", tmp_path / "again", "--card", card)
    assert "84 of 84 records" in again.stdout
    other = costmodel("dataset", "export", built, "--format", "t4", "--out", out, "--device", "H100")
    assert_refused(other, "has none")


def test_files_that_do_not_say_enough_are_told_the_rest(card: Path, tmp_path: Path) -> None:
    (tmp_path / "t4.json").write_text(json.dumps(fake_t4()))
    (tmp_path / "runs.csv").write_text(csv_text(fake_rows()))
    (tmp_path / "map.toml").write_text(COLUMN_MAP)
    (tmp_path / "platform.toml").write_text(PLATFORM_TOML.replace("workload", "# workload"))
    records = write_database(tmp_path / "db", fake_records())

    def build(file: Path, *options: object):
        return costmodel(
            "dataset", "build", file, "--out", tmp_path / "out", "--force", "--card", card, *options
        )

    assert_refused(build(tmp_path / "t4.json"), "--platform platform.toml")
    platform = ("--platform", tmp_path / "platform.toml")
    assert_refused(build(tmp_path / "t4.json", *platform), "--workload suite.kernel-x4096")
    assert_refused(build(tmp_path / "t4.json", *platform, "--workload", "?"), "Unknown workload")
    assert "6 of 6" in build(tmp_path / "t4.json", *platform, "--workload", "suite.gemm-x4096").stdout
    assert "4 of 4" in build(records, *platform).stdout
    assert_refused(build(tmp_path / "runs.csv"), "Give `--columns map.toml`")
    assert "4 of 4" in build(tmp_path / "runs.csv", "--columns", tmp_path / "map.toml").stdout
