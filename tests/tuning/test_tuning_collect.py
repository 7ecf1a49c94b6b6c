"""From a campaign to a dataset in two calls, on the CPU of this machine."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from costmodel.collector import CampaignConfig, find_campaign
from costmodel.collector.campaign import KernelPlan
from costmodel.errors import CostModelError
from costmodel.tuning import Collected, collect

TINY = CampaignConfig(
    "cpu", ("matmul-m16-n16-k16",), sms=(1,), kernels=KernelPlan(random=2), repeat_share=0.0
)
TOML = """
runner = "cpu"
workloads = ["matmul-m16-n16-k16"]
sms = [1]
kernels = { random = 2 }
repeat_share = 0.0
"""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Collected, Collected]:
    """The folder of a campaign, and what two calls say: one begins with an object, one ends with its file."""
    pytest.importorskip("tvm")
    out, file = tmp_path_factory.mktemp("first") / "out", tmp_path_factory.mktemp("files") / "tiny.toml"
    file.write_text(TOML)
    return out, collect(TINY, out, time_limit_s=0.0), collect(file, str(out))


@pytest.mark.tvm
def test_a_campaign_is_collected_in_two_calls_and_becomes_a_dataset(
    collected: tuple[Path, Collected, Collected],
) -> None:
    """An object and a file that say the same are one campaign."""
    out, stopped, finished = collected
    assert (stopped.finished, stopped.measured, stopped.stored) == (False, 0, 0)
    assert "go on" in repr(stopped)
    assert (finished.finished, finished.measured, finished.outcomes) == (True, 2, {"ok": 2})
    assert finished.campaign == "tiny"
    assert "2 measured now" in finished._repr_html_()
    data = finished.dataset()
    assert data.workloads == TINY.workloads
    assert len(data.measurements) == 2
    assert "kernels on parts of a device" in (out / "dataset" / "README.md").read_text()


@pytest.mark.tvm
def test_the_kernels_of_another_campaign_are_measured_again(
    collected: tuple[Path, Collected, Collected], tmp_path: Path
) -> None:
    out, _, finished = collected
    first = finished.dataset(tmp_path / "first-data")
    other = replace(TINY, seed=7)
    again = collect(other, tmp_path / "again", candidates=out).dataset(tmp_path / "again-data")
    ids = [{candidate.candidate_id for candidate in data.candidates} for data in (first, again)]
    assert ids[0] == ids[1]


def test_campaigns_go_by_object_path_and_name(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TOML)
    assert find_campaign(file) == find_campaign(str(file)) == find_campaign(TINY) == TINY
    assert find_campaign("cpu-quick").runner == "cpu"
    with pytest.raises(CostModelError, match="or a shipped campaign: cpu-quick"):
        find_campaign("cpu-quik")
    with pytest.raises(CostModelError, match="good_at must name"):
        find_campaign(replace(TINY, kernels=KernelPlan(random=1, rounds=1)))


def test_a_file_wins_over_a_campaign_that_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu-quick").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    assert find_campaign("cpu-quick") == TINY


def test_markup_in_what_it_says_is_shown_as_text() -> None:
    result = Collected("x", ("cuda",), "A <b> CPU.", True, 1, 1, {"ok": 1}, Path("measurements.jsonl"))
    assert "A &lt;b&gt; CPU." in result._repr_html_()
