"""The campaign of kernels that serve language models: every problem has configs, and one to compare with."""

from pathlib import Path

import pytest

from costmodel.collector import find_campaign
from costmodel.kernels.triton._source import TritonSource

pytestmark = pytest.mark.white_box

CAMPAIGN = Path(__file__).parents[2] / "experiments" / "serving" / "campaign.toml"


def test_each_problem_has_configs_of_which_the_default_is_one() -> None:
    source, campaign = TritonSource(), find_campaign(CAMPAIGN)
    assert len(campaign.parsed_workloads) > 100
    for workload in campaign.parsed_workloads:
        space = source.space(workload, "cuda")
        assert space.size is None or space.size >= 12, workload.name
        assert space.candidate(space.starts[0]).launches[0].blocks >= 1, workload.name
