"""Graphs of recorded traces, what was measured beside them, and what of others may be known of a network."""

import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._fuse import GRAPH_GAP_S
from costmodel.planner.whatif._profiler import USUAL_HOST_SHARE

# Each iteration that was traced is one annotation.
STEP = "iteration"
# No networks: they tell what calls, launches and gaps cost.
LOOPS = ("tiny-kernels", "queued-kernels", "views")


class Traces:
    """Graphs of the traces of a folder, and what was measured beside them."""

    def __init__(self, folder: Path) -> None:
        recording = json.loads((folder / "measurements.json").read_text())
        self.about, self.rows = recording["about"], recording["rows"]
        self._archive = zipfile.ZipFile(folder / "traces.zip")
        self._measured = {(row["network"], row["variant"]): row for row in self.rows}
        self.graph = cache(self._graph)
        self.gap_s = cache(self._gap_s)

    def is_traced(self, network: str, variant: str) -> bool:
        """Whether the archive has a trace of a variant."""
        return f"{network}/{variant}.json" in self._archive.namelist()

    def networks(self) -> list[dict[str, Any]]:
        """Rows of networks."""
        return [row for row in self.rows if row["network"] not in LOOPS]

    def measured_s(self, network: str, variant: str) -> float:
        """Seconds of an iteration without the profiler, by the clock of the host."""
        return float(np.median(self._measured[network, variant]["wall_s"]))

    def aa(self, network: str, variant: str) -> float:
        """How far its two medians are apart, as a part of the first."""
        first, second = self._measured[network, variant]["wall_s"]
        return float(abs(second / first - 1))

    def traced_s(self, network: str, variant: str) -> float:
        """Seconds of the iteration that was traced."""
        return float(self._measured[network, variant]["traced_wall_s"][""])

    @property
    def host_share(self) -> float:
        """What the host takes without the profiler of what it takes with it: the median of loops of calls."""
        names = [(name, "eager") for name in LOOPS if (name, "eager") in self._measured]
        found = [self.measured_s(*each) / self.traced_s(*each) for each in names]
        return float(np.median(found)) if found else USUAL_HOST_SHARE

    def constants(self) -> dict[str, Any]:
        """What was learned here: gaps for each network from the others, and from all."""
        names = {row["network"] for row in self.networks()}
        gaps = {name: self.gap_s(name) for name in sorted(names)}
        return {"host_share": self.host_share, "gap_s": gaps | {"of all": self.gap_s("")}}

    def _gap_s(self, network: str) -> float:
        """Seconds between kernels of a CUDA graph, as those of other networks have them: the median."""
        found = []
        for row in self.networks():
            is_traced = self.is_traced(row["network"], row["variant"])
            if row["graph"] and is_traced and row["network"] != network:
                graph = self.graph(row["network"], row["variant"]).graph
                durations = graph.durations_s[graph.on_device]
                found.append((float(np.median(row["event_s"])) - durations.sum()) / len(durations))
        return max(float(np.median(found)), 0.0) if found else GRAPH_GAP_S

    def _graph(self, network: str, variant: str) -> RecordedGraph:
        with tempfile.TemporaryDirectory() as folder:
            path = self._archive.extract(f"{network}/{variant}.json", folder)
            return read_kineto(path, within=STEP)
