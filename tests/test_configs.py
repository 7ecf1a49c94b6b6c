"""Every file in configs/ is valid, and says what the README says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from costmodel.collector import CampaignConfig
from costmodel.dataset import find_dataset
from costmodel.dataset.publish._card import read_card_header
from costmodel.dataset.table._files import SHIPPED_DATASETS
from costmodel.errors import CostModelError
from costmodel.evaluation._config import EvaluationConfig
from costmodel.records import Workload
from costmodel.workloads._sample import sample_workloads

pytestmark = pytest.mark.white_box

CONFIGS = Path(__file__).parents[1] / "configs"
CARDS = sorted((CONFIGS / "cards").glob("*.toml"))
EVALUATIONS = sorted(CONFIGS.glob("evaluate-*.toml"))
CAMPAIGNS = sorted(set(CONFIGS.glob("*.toml")) - set(EVALUATIONS))
READERS: dict[Path, Callable[[Path], Any]] = {
    **dict.fromkeys(CAMPAIGNS, CampaignConfig.load),
    **dict.fromkeys(EVALUATIONS, EvaluationConfig.load),
    **dict.fromkeys(CARDS, read_card_header),
}


def test_every_file_has_a_reader() -> None:
    others = set(
        (CONFIGS / "service").iterdir()
    )  # read by Docker and PostgreSQL, see test_service_configs.py
    assert set(CONFIGS.rglob("*.*")) - others == set(READERS)
    assert all((CAMPAIGNS, EVALUATIONS, CARDS))


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_unknown_keys_are_rejected(path: Path, tmp_path: Path) -> None:
    READERS[path](path)
    changed = tmp_path / path.name
    changed.write_text("no_such_key = 1\n" + path.read_text())
    with pytest.raises(CostModelError, match=f"{path.name}.*no_such_key"):
        READERS[path](changed)


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_campaigns_name_workloads(path: Path) -> None:
    config = CampaignConfig.load(path)
    assert len(config.parsed_workloads) == len(config.workloads)


# These kernels are no operators, whose shapes could be left out.
OF_OTHERS = ("kernels-at-large", "serving-sm-budgets", "inductor-sm-budgets")


@pytest.mark.parametrize("name", [each for each in SHIPPED_DATASETS if each not in OF_OTHERS])
def test_published_datasets_hold_nothing_that_their_campaigns_leave_out(name: str) -> None:
    left_out = CampaignConfig.load(CONFIGS / f"{name}.toml").left_out
    assert len(left_out) == 13
    table = pq.read_table(find_dataset(name) / "measurements.parquet", columns=["workload"])
    shapes = {text: Workload.parse(text).shape for text in table["workload"].unique().to_pylist()}
    assert len(shapes) > 10
    assert not [text for text, shape in shapes.items() if any(each.includes(shape) for each in left_out)]


def test_the_wide_campaign_is_what_the_command_draws() -> None:
    wide, apart = (
        CampaignConfig.load(CONFIGS / f"{name}.toml") for name in ("wide-sm-budgets", "sm-budgets")
    )
    shapes = [*apart.left_out, *(each.shape for each in apart.parsed_workloads)]
    assert list(wide.parsed_workloads) == sample_workloads(500, 2026, apart_from=shapes)
    assert wide.leave_out == apart.leave_out


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.name)
def test_evaluations_name_a_dataset_of_this_repository_or_of_out(path: Path) -> None:
    named = EvaluationConfig.load(path).dataset
    assert named
    folder = Path(named)
    assert folder.parts[0] == "out" or (CONFIGS.parent / folder / "SHA256SUMS").is_file()


def test_the_third_of_the_wide_campaign_is_every_third_of_its_workloads() -> None:
    """Other GPUs measure it with the kernels of the dataset, which has some of every workload."""
    whole, third = (
        CampaignConfig.load(CONFIGS / f"{name}.toml") for name in ("wide-sm-budgets", "wide-sm-budgets-third")
    )
    assert third.workloads == whole.workloads[::3]
    assert (third.sms, third.leave_out, third.timing) == (whole.sms, whole.leave_out, whole.timing)
