"""From a campaign to a dataset in two calls, on the CPU of this machine."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from costmodel.collector import CampaignConfig, campaign_status, find_campaign
from costmodel.collector.campaign._config import KernelPlan
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.tuning import collect
from costmodel.tuning._collect import Collected

pytestmark = pytest.mark.white_box

TINY = CampaignConfig(
    "cpu", ("matmul-m16-n16-k16",), sms=(1,), kernels=KernelPlan(random=2), repeat_share=0.0
)
MORE = replace(TINY, seed=7, kernels=KernelPlan(random=3, rounds=1, per_round=3, good_at=(1,)))
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
    assert _ids(first) == _ids(again)


@pytest.mark.tvm
def test_the_kernels_of_a_dataset_are_measured_again_and_no_others(
    collected: tuple[Path, Collected, Collected], tmp_path: Path
) -> None:
    """Later rounds stay empty, and the campaign is finished without them."""
    first = collected[2].dataset(tmp_path / "data")
    again = collect(MORE, tmp_path / "again", candidates=tmp_path / "data")
    assert (again.finished, again.measured) == (True, 2)
    assert _ids(again.dataset()) == _ids(first)
    status = campaign_status(tmp_path / "again")
    assert (status.workloads[0].rounds, status.expected, status.measured) == (2, 2, 2)
    assert collect(MORE, tmp_path / "again").measured == 0


@pytest.mark.tvm
def test_a_campaign_that_starts_from_a_dataset_draws_more_after_its_kernels(
    collected: tuple[Path, Collected, Collected], tmp_path: Path
) -> None:
    first = collected[2].dataset(tmp_path / "data")
    stopped = collect(MORE, tmp_path / "more", start_from=first, time_limit_s=0.0)
    assert not stopped.finished
    assert campaign_status(tmp_path / "more").expected == 2 + MORE.kernels.per_round
    finished = collect(MORE, tmp_path / "more", start_from=first)
    assert (finished.finished, finished.measured) == (True, 2 + MORE.kernels.per_round)
    assert _ids(finished.dataset()) > _ids(first)


@pytest.mark.tvm
def test_a_dataset_of_other_workloads_gives_a_campaign_no_kernels(
    collected: tuple[Path, Collected, Collected], tmp_path: Path
) -> None:
    first = collected[2].dataset(tmp_path / "data")
    other = "matmul-m32-n16-k16"
    both = replace(TINY, workloads=(*TINY.workloads, other))
    with pytest.raises(CostModelError, match=f"none of {other}. Leave these out"):
        collect(both, tmp_path / "both", candidates=first)
    assert collect(TINY, tmp_path / "both", candidates=first, time_limit_s=0.0).stored == 0
    with pytest.raises(CostModelError, match=other):
        collect(replace(TINY, workloads=(other,)), tmp_path / "other", start_from=tmp_path / "data")
    with pytest.raises(CostModelError, match="must be taken from one place"):
        collect(TINY, tmp_path / "one", candidates=first, start_from=first)


def _ids(data: Dataset) -> set[str]:
    return {candidate.candidate_id for candidate in data.candidates}


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
