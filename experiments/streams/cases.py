"""Graphs that are scheduled: networks with branches, and kernels of traces that need each other at random."""

import gzip
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from costmodel.planner import KernelGraph
from costmodel.planner.graphs._json_graph import JsonTask
from costmodel.planner.graphs._kernel_graph import TaskKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._fuse import GRAPH_GAP_S

TRACES = Path(__file__).parents[2] / "datasets" / "traces" / "traces.zip"
# CUDA graphs at batch 1 or of one token: kernels as small as those of the networks.
DRAWN_FROM = ("resnet50/graph.json", "resnet50/half-graph.json", "gpt-decode/graph.json", "dlrm/graph.json")
# How the names of kernels of convolutions begin, and those of what their epilogue does, which
# ``facts.layer_of`` gives them.
CONVOLUTIONS = ("Conv2d", "DepthwiseConv2d")
# What an epilogue of a convolution does, in the order in which it follows.
EPILOGUE = ("BatchNorm2d", "ReLU")
# Of kernels drawn at random: what one needs at most, among how many before it, and how often not the first.
_MOST_NEEDS, _NEAREST, _NEAR = 3, 6, 0.9


def networks(path: Path) -> dict[str, list[JsonTask]]:
    """Tasks of networks by name, of ``graphs.jsonl`` of ``measure.py``: those in float16."""
    content = path.read_bytes()
    lines = gzip.decompress(content) if path.suffix == ".gz" else content
    rows = [json.loads(line) for line in lines.splitlines()]
    rows = [row for row in rows if row["dtype"] == "float16" and "error" not in row]
    return {row["network"]: with_epilogues(msgspec.convert(row["tasks"], list[JsonTask])) for row in rows}


def with_epilogues(tasks: Sequence[JsonTask]) -> list[JsonTask]:
    """Norms and ReLUs become part of the convolution before them, as compilers have it, and take no time."""
    readers: dict[str, int] = {}
    for task in tasks:
        for needed in task.after:
            readers[needed] = readers.get(needed, 0) + 1
    into: dict[str, str] = {}
    kept: dict[str, JsonTask] = {}
    last: dict[str, str] = {}
    for task in tasks:
        after = sorted({into[each] for each in task.after})
        first = kept.get(after[0]) if len(after) == 1 else None
        alone = first is not None and first.name.startswith(CONVOLUTIONS) and readers[last[first.id]] == 1
        if alone and task.name.startswith(EPILOGUE):
            into[task.id] = first.id
        else:
            into[task.id] = task.id
            kept[task.id] = msgspec.structs.replace(task, after=after)
        last[into[task.id]] = task.id
    return list(kept.values())


def drawn(n: int, kernels: Sequence[JsonTask], draw: np.random.Generator) -> list[JsonTask]:
    """A graph of so many kernels, each of which needs one to three of the six before it, or the first."""
    found: list[JsonTask] = []
    for i in range(n):
        before = [task.id for task in found[-_NEAREST:]]
        needs = min(int(draw.integers(1, _MOST_NEEDS + 1)), len(before))
        nearest = sorted(draw.choice(before, needs, replace=False).tolist()) if needs else []
        after = nearest if draw.random() < _NEAR else before[:1] and ["k0"]
        kernel = kernels[draw.integers(len(kernels))]
        found.append(msgspec.structs.replace(kernel, id=f"k{i}", scope=f"k{i}", after=after))
    return found


def kernels_of_traces() -> list[JsonTask]:
    """All kernels of some traces of an H100."""
    return [task for name in DRAWN_FROM for task in _kernels(_read(name))]


def _read(name: str) -> KernelGraph:
    with TemporaryDirectory() as folder, zipfile.ZipFile(TRACES) as archive:
        return read_kineto(Path(archive.extract(name, folder))).graph


def _kernels(graph: KernelGraph) -> Iterator[JsonTask]:
    for task in np.flatnonzero(graph.of_kind(TaskKind.KERNEL)).tolist():
        yield JsonTask(
            id="",
            name=graph.name(task),
            duration_s=float(graph.durations_s[task]),
            gap_s=GRAPH_GAP_S,
            sms=int(graph.sms[task]),
            blocks=int(graph.blocks[task]),
            block_warps=int(graph.block_warps[task]),
            sm_blocks=int(graph.sm_blocks[task]),
        )
