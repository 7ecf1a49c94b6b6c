"""Choose the configs of the campaign: what frameworks run, what their tables have nearby, and a sample.

They are the first round of the campaign in the folder, which ``measure.py`` times.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from costmodel.collector.campaign._config import CampaignConfig
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.errors import InvalidConfigError
from costmodel.kernels._design_space import DesignSpace, sample_from_starts
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._candidate import Candidate, Config
from costmodel.records._workload import Workload
from costmodel.serving._default_rule import default_row
from costmodel.serving._forms import PublishedTable, published_tables
from costmodel.serving._kernel import ExpertProducts, Kernel, Precision, Row, ScaledProduct

_GPUS = ("H100", "H200", "H800")
_MOST_PUBLISHED = 6
_PRECISIONS: dict[str, Precision] = {
    "triton.fused_moe": "",
    "triton.fused_moe_weighted": "",
    "triton.fused_moe_float8": "fp8_w8a8",
    "triton.fused_moe_int4": "int4_w4a16",
    "triton.fused_moe_int8": "int8_w8a16",
}


def main() -> None:
    """Choose for each workload that has none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    config, folder = CampaignConfig.load(options.campaign), CampaignFolder(options.folder)
    folder.claim(config)
    left = [each for each in config.parsed_workloads if folder.proposals(each, 0) is None]
    with ProcessPoolExecutor() as processes:
        for workload, chosen in zip(left, processes.map(partial(choose, config), left), strict=True):
            folder.write_proposals(workload, 0, chosen)


def choose(config: CampaignConfig, workload: Workload) -> list[Candidate]:
    """Return what is timed of a workload: what others are known to choose, then a sample."""
    space = TritonSource().space(workload, "cuda")
    known = {each.candidate_id: each for row in _rows(workload) for each in _candidates(space, row)}
    drawn = sample_from_starts(
        space, config.kernels.random, config.draw_seed(workload, 0), known=list(known.values())
    )
    return [*known.values(), *drawn]


def _rows(workload: Workload) -> Iterator[Row]:
    """Yield what frameworks run without a table, then what tables for Hopper have for the nearest sizes."""
    kernel = _kernel_of(workload)
    if kernel is None:
        return
    tokens = workload.dims["t" if isinstance(kernel, ExpertProducts) else "m"]
    yield from (default_row(each, kernel, tokens) for each in ("vllm", "sglang"))
    alike = [each for each in published_tables() if _is_hopper(each) and _is_alike(each.kernel, kernel)]
    for table in sorted(alike, key=lambda each: _distance(each.kernel, kernel))[:_MOST_PUBLISHED]:
        yield table.row(tokens)


def _kernel_of(workload: Workload) -> Kernel | None:
    """Return what tables of frameworks are for; None where there are none."""
    dims, kind = workload.dims, workload.kind
    if kind == "triton.block_scaled_float8":
        return ScaledProduct(dims["n"], dims["k"])
    if kind not in _PRECISIONS:
        return None
    precision = _PRECISIONS[kind]
    width = dims["d"] if kind.endswith("weighted") else dims["n"] // 2
    block = None if not precision else (128, 128) if precision == "fp8_w8a8" else (0, dims["g"])
    return ExpertProducts(dims["e"], dims["k"], width, 0, precision, block)


def _is_hopper(table: PublishedTable) -> bool:
    return any(name in table.device for name in _GPUS)


def _is_alike(one: Kernel, other: Kernel) -> bool:
    if isinstance(one, ExpertProducts) and isinstance(other, ExpertProducts):
        return one.precision == other.precision
    return type(one) is type(other) and one.block == other.block


def _distance(one: Kernel, other: Kernel) -> float:
    """Doublings of sizes, and one for another block."""
    apart = np.log2(_sizes(one)) - np.log2(_sizes(other))
    return float(np.abs(apart).sum() + (one.block != other.block))


def _sizes(kernel: Kernel) -> tuple[int, int]:
    if isinstance(kernel, ScaledProduct):
        return kernel.columns, kernel.depth
    return kernel.experts, kernel.width


def _candidates(space: DesignSpace, row: Row) -> Iterator[Candidate]:
    """Yield the candidate of a row, with a smaller group where there are too few tiles; none outside."""
    decisions = {name.replace("_SIZE", ""): value for name, value in row.items()}
    for group in sorted({1, 8, 16, 32, 64}, reverse=True):
        if group <= decisions["GROUP_M"]:
            with suppress(InvalidConfigError):
                yield space.candidate(Config({**decisions, "GROUP_M": group}))
                return


if __name__ == "__main__":
    main()
