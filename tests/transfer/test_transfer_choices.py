"""Choice models: what would be chosen, from tables that hold nothing but the chosen config."""

from pathlib import Path

import pytest

from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._source import ChosenConfig
from costmodel.errors import CostModelError
from costmodel.records import find_device
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._platform import part_of
from costmodel.records._workload import Workload
from costmodel.transfer._choices import ChoiceModel

pytestmark = pytest.mark.white_box

OTHER_TOOLS = Path(__file__).parents[1] / "dataset" / "other_tools"
A100, H100, L40S = map(find_device, ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA L40S"))


def chosen(m: int, device: object, **decisions: Decision) -> ChosenConfig:
    workload = Workload("moe.fused_moe.abcdef", {"m": m, "n": 4096}, "")
    return ChosenConfig(Candidate(workload, "moe", Config(decisions)), part_of(device))  # type: ignore[arg-type]


CHOICES = [
    *(chosen(m, H100, rows=16, columns=64, warps=4) for m in (1, 2, 4)),
    *(chosen(m, H100, rows=128, columns=256, warps=8) for m in (1024, 2048, 4096)),
    *(chosen(m, A100, rows=16, columns=32, warps=4) for m in (1, 2, 4)),
    *(chosen(m, A100, rows=128, columns=128, warps=8) for m in (1024, 2048, 4096)),
]


def first(m: int, device: object, *names: str) -> dict[str, Decision]:
    workload = Workload("moe.fused_moe.abcdef", {"m": m, "n": 4096}, "")
    return ChoiceModel().fit(CHOICES).rank(workload, device, 1, names)[0].decisions  # type: ignore[arg-type]


def test_like_sizes_on_like_devices_are_chosen_for_alike() -> None:
    assert first(3, H100) == {"rows": 16, "columns": 64, "warps": 4}
    assert first(3000, H100) == {"rows": 128, "columns": 256, "warps": 8}
    assert first(3, A100) == {"rows": 16, "columns": 32, "warps": 4}
    assert first(3000, A100) == {"rows": 128, "columns": 128, "warps": 8}


def test_parameters_that_matter_are_ranked_alone() -> None:
    assert first(3, L40S, "rows") == {"rows": 16}
    assert first(3000, L40S, "rows") == {"rows": 128}


def test_weights_are_shares_in_order() -> None:
    ranked = ChoiceModel().fit(CHOICES).rank(CHOICES[0].candidate.workload, H100, 10)
    weights = [each.weight for each in ranked]
    assert len(ranked) == 4
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1.0)


def test_a_combination_of_common_values_comes_before_one_that_was_chosen_elsewhere() -> None:
    """What was never chosen as a whole is not proposed; what was, gains by its values."""
    odd = chosen(4096, L40S, rows=128, columns=256, warps=4)
    rare = chosen(4096, L40S, rows=512, columns=512, warps=1)
    far = [
        chosen(1, A100, **odd.candidate.config.decisions),
        chosen(1, A100, **rare.candidate.config.decisions),
    ]
    ranked = ChoiceModel().fit([*CHOICES, *far]).rank(odd.candidate.workload, H100, 10)
    found = [each.decisions for each in ranked]
    assert found.index(odd.candidate.config.decisions) < found.index(rare.candidate.config.decisions)


def test_files_of_best_configs_can_be_learned_from() -> None:
    (file,) = OTHER_TOOLS.glob("E=8*.json")
    choices = read_source(file).choices
    one = choices[0]
    ranked = ChoiceModel().fit(choices).rank(one.candidate.workload, one.platform.device, 3)
    assert one.candidate.config.decisions in [each.decisions for each in ranked]


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(CostModelError, match="must have choices to learn from"):
        ChoiceModel().fit([])
