"""The published sheet: of this split, of these entries, and the tables are made from it."""

from pathlib import Path

import pytest

from costmodel.benchmark import TRACKS, ScoreSheet
from costmodel.benchmark._entry import shipped_entries
from costmodel.benchmark._pose import QUESTIONS
from costmodel.benchmark._tracks import baseline_of
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "benchmark"


@pytest.fixture(scope="module")
def sheet():
    return ScoreSheet.read(FOLDER / "result.json")


def test_the_tables_come_out_byte_for_byte(sheet):
    assert sheet.to_markdown() == (FOLDER / "table.md").read_text()
    assert sheet.to_json() == (FOLDER / "result.json").read_bytes()


def test_every_entry_stands_in_the_sheet_and_in_the_leaderboard(sheet):
    judged = {line.entry for line in sheet.lines}
    assert judged == {name for name, entry in shipped_entries().items() if not entry.is_extra}
    rows = (FOLDER / "leaderboard.csv").read_text().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == judged


def test_every_question_is_asked_by_a_track_and_has_a_baseline(sheet):
    assert {name for track in TRACKS.values() for name in track.questions} == set(QUESTIONS)
    of_question = {(line.question, line.entry) for line in sheet.lines}
    assert {(name, baseline_of(name)) for name in QUESTIONS} <= of_question


def test_some_entry_of_others_or_a_rule_is_ahead_of_ours_somewhere(sheet):
    """Else the sheet would have been made to please."""
    first = {}
    for line in sheet.lines:
        first.setdefault((line.question, line.score), line.made_by)
    assert set(first.values()) > {"costmodel"}


def test_what_is_no_sheet_is_refused(tmp_path):
    file = tmp_path / "sheet.json"
    file.write_text('{"salt": "x"}')
    with pytest.raises(CostModelError, match="must be a score sheet"):
        ScoreSheet.read(file)
