from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.files import write_json
from costmodel.service import load_times
from costmodel.service._stage_times import StageTimes

pytestmark = pytest.mark.white_box


def test_times_come_from_a_file(tmp_path: Path) -> None:
    times = StageTimes(source="here", build_s=(1.0, 2.0), measure_s=(0.5,), lane_slowdown={2: 1.5})
    write_json(tmp_path / "times.json", times)
    assert load_times(tmp_path / "times.json") == times
    assert load_times(str(tmp_path / "times.json")) == times


@pytest.mark.parametrize("name", ["h100", "cpu"])
def test_times_that_ship_say_where_they_were_measured(name: str) -> None:
    times = load_times(name)
    assert len(times.source) > 40
    assert min(map(len, (times.build_s, times.measure_s, times.propose_s))) >= 40


def test_a_part_can_do_as_much_as_its_mean_time_allows() -> None:
    times = StageTimes(
        source="", build_s=(1.0, 3.0), measure_s=(0.5,), engine_s=(0.01,), lane_slowdown={2: 1.5}
    )
    assert times.per_second(8, 1) == {"builders": 4.0, "GPUs": 2.0, "engine": 100.0}
    assert times.per_second(8, 3, lanes=2)["GPUs"] == pytest.approx(3 * 2 / 1.5 / 0.5)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "truncated"),
        ('{"source": "", "build_s": [], "measure_s": [1]}', "build_s must be one or more finite numbers"),
        ('{"source": "", "build_s": [1], "measure_s": [-1]}', "measure_s must be one or more finite numbers"),
        ('{"source": "", "build_s": [1], "measure_s": [1], "buld_s": [1]}', "unknown field"),
        ('{"source": "", "build_s": [1], "measure_s": [1], "lane_slowdown": {"2": 0.5}}', "lane_slowdown"),
    ],
)
def test_files_of_other_content_are_refused(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "times.json").write_text(content)
    with pytest.raises(CostModelError, match=f"must be measured times .*, but: .*{reason}"):
        load_times(tmp_path / "times.json")


def test_who_misspells_a_name_is_asked() -> None:
    with pytest.raises(CostModelError, match=r"or one of cpu, h100, but there is no H1OO"):
        load_times("H1OO")
