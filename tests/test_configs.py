"""Every file in configs/ is valid, and says what the README says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.collect import CampaignConfig
from costmodel.dataset import read_card_header
from costmodel.errors import CostModelError
from costmodel.evaluation import EvaluationConfig
from costmodel.records import is_reserved

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
    assert set(CONFIGS.rglob("*.*")) == set(READERS)
    assert all((CAMPAIGNS, EVALUATIONS, CARDS))


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_unknown_keys_are_rejected(path: Path, tmp_path: Path) -> None:
    READERS[path](path)
    changed = tmp_path / path.name
    changed.write_text("no_such_key = 1\n" + path.read_text())
    with pytest.raises(CostModelError, match=f"{path.name}.*no_such_key"):
        READERS[path](changed)


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_campaigns_leave_the_reserved_workloads_alone(path: Path) -> None:
    config = CampaignConfig.load(path)
    assert len(config.parsed_workloads) == len(config.workloads)
    assert not any(is_reserved(workload) for workload in config.parsed_workloads)


@pytest.mark.parametrize("path", EVALUATIONS, ids=lambda path: path.name)
def test_evaluations_name_a_dataset_of_this_repository_or_of_out(path: Path) -> None:
    named = EvaluationConfig.load(path).dataset
    assert named
    folder = Path(named)
    assert folder.parts[0] == "out" or (CONFIGS.parent / folder / "SHA256SUMS").is_file()
