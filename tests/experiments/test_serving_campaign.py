"""The campaign of kernels that serve language models, measured by what times nothing."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from experiment_folder import found_beside
from msgspec.structs import replace

from costmodel.collector import find_campaign
from costmodel.collector._engine import EngineLostError
from costmodel.collector.campaign._campaign import Campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.runners._base import Request
from costmodel.kernels.triton._source import TritonSource
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload, find_device, read_records
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "serving"
CAMPAIGN = find_campaign(FOLDER / "campaign.toml")
H100 = find_device("NVIDIA H100 80GB HBM3")


class TimesNothing:
    """Every kernel takes a microsecond over its programs; after some batches, what measures is lost."""

    def __init__(self, batches: int | None = None) -> None:
        self._left = batches

    def platform(self, sms: int | None = None, isolation: str | None = None) -> Platform:
        return part_of(H100, sms or H100.sms)

    def draw(
        self,
        function: Callable[..., list[Candidate]],
        workload: Workload,
        count: int,
        seed: int,
        **options: Any,
    ) -> "Future[list[Candidate]]":
        made: Future[list[Candidate]] = Future()
        made.set_result(function(workload, "cuda", count, seed, **options))
        return made

    def submit(self, requests: Sequence[Request]) -> "Future[list[Measurement]]":
        if self._left == 0:
            raise EngineLostError("gone")
        self._left = self._left and self._left - 1
        made: Future[list[Measurement]] = Future()
        made.set_result([self._measure(each) for each in requests])
        return made

    def _measure(self, request: Request) -> Measurement:
        return Measurement(
            candidate=request.candidate,
            platform=request.platform,
            outcome=Outcome.OK,
            latencies_s=(1e-6 / request.candidate.launches[0].blocks,),
            visit=request.visit,
            measured_at="2026-11-27T00:00:00+00:00",
        )


def test_each_problem_has_configs_of_which_the_default_is_one() -> None:
    source = TritonSource()
    assert len(CAMPAIGN.parsed_workloads) > 120
    for workload in CAMPAIGN.parsed_workloads:
        space = source.space(workload, "cuda")
        assert space.size is None or space.size >= 12, workload.name
        assert space.candidate(space.starts[0]).launches[0].blocks >= 1, workload.name


@pytest.mark.parametrize(
    ("name", "frameworks", "published"),
    [
        ("triton.fused_moe-t32-e128-k8-n1536-d2048-s100", {(16, 64, 128, 4, 4), (16, 32, 64, 4, 3)}, 3),
        ("triton.fused_moe_float8-t2048-e256-k8-n512-d7168-s100", {(64, 128, 128, 4, 3)}, 3),
        ("triton.block_scaled_float8-m1-n7168-k2304", {(64, 128, 128, 4, 3), (64, 128, 128, 4, 2)}, 0),
    ],
)
def test_what_frameworks_run_and_their_tables_have_is_timed(
    name: str, frameworks: set[tuple[int, ...]], published: int
) -> None:
    parameters = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
    with found_beside(FOLDER, ["choose"]):
        from choose import choose

        chosen = choose(CAMPAIGN, Workload.parse(name))
    configs = [tuple(each.config.decisions[part] for part in parameters) for each in chosen]
    assert frameworks <= set(configs)
    assert len(configs) >= CAMPAIGN.kernels.random + published
    assert len({each.candidate_id for each in chosen}) == len(chosen)


def test_a_campaign_that_is_stopped_goes_on_and_measures_everything_once(tmp_path: Path) -> None:
    """One problem of each family, three kernels of it."""
    one_each = {each.kind: each.name for each in CAMPAIGN.parsed_workloads}
    small = replace(
        CAMPAIGN,
        workloads=tuple(one_each.values()),
        kernels=replace(CAMPAIGN.kernels, random=3),
        sms=(16, 132),
    )
    folder = CampaignFolder(tmp_path / "serving")
    with pytest.raises(EngineLostError):
        Campaign(small, TimesNothing(batches=4), folder).run()
    before = len(list(read_records(folder.store)))
    assert 0 < before < small.measurements
    assert Campaign(small, TimesNothing(), folder).run().finished
    measured = list(read_records(folder.store))
    assert len({each.key for each in measured}) == len(measured)
    assert {each.candidate.workload.name for each in measured} == set(small.workloads)
    assert {each.platform.sms_granted for each in measured} == {16, 132}
