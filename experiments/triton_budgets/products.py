"""Matrix products: rules that others choose tiles by."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from held_out import tasks_of

from costmodel.arrays import FloatArray
from costmodel.dataset import Dataset
from costmodel.learners._metrics import log_excess
from costmodel.records import Candidate

WAVES, HEURISTICS = "wave rule (DeepGEMM's)", "nvidia-matmul-heuristics"
ANCHORS = ("matmul", "batch_matmul")
_PRECISION = {"float16": b"HSH", "float32": b"SSS"}  # of operands, sums and results

Score = Callable[[Sequence[Candidate], int], FloatArray]


def judge_rules_of_products(triton: Dataset) -> pd.DataFrame:
    """Time of what each rule chooses first over the best, less 1 (``excess``), of each matrix product."""
    rules: Mapping[str, Score] = {WAVES: wave_scores, **_heuristics(triton.devices[0])}
    found = []
    for task, rows in tasks_of(triton):
        candidates = [triton.candidates[i] for i in rows["candidate"]]
        workload, sms = candidates[0].workload, int(rows["sms_granted"].iloc[0])
        latency_s = rows["latency_s"].to_numpy(dtype=np.float64)
        if workload.is_foreign or workload.operator.anchor not in ANCHORS or not np.isfinite(latency_s).any():
            continue
        for way, score in rules.items():
            excess = float(np.expm1(log_excess(score(candidates, sms), latency_s)))
            found.append({"task": task, "sms": sms, "way": way, "excess": excess})
    return pd.DataFrame(found, columns=["task", "sms", "way", "excess"])


def wave_scores(candidates: Sequence[Candidate], sms: int) -> FloatArray:
    """Fewest waves of tiles over the SMs, then the fullest last wave, the smaller tile, the most stages.

    So DeepGEMM, whose kernels keep a program on each SM, chooses blocks for the number of SMs that it is told
    (github.com/deepseek-ai/DeepGEMM, ``set_num_sms``); written anew from its description. Configs that split
    sums, and persistent ones for another number of SMs, come last. What the rule does not choose, such as
    the number of warps, counts as drawn at random.
    """
    keys = [_by_waves(candidate, sms) for candidate in candidates]
    places = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([places[key] for key in keys], dtype=np.float64)


def _by_waves(candidate: Candidate, sms: int) -> tuple[int, ...]:
    """What is greater for a better config, the most important first."""
    chosen: Any = candidate.config.decisions
    dims = candidate.workload.dims
    m, n = chosen["BLOCK_M"], chosen["BLOCK_N"]
    tiles = dims.get("b", 1) * -(-dims["m"] // m) * -(-dims["n"] // n)
    plain = chosen["SPLIT_K"] == 1 and _is_for(candidate, sms)
    return plain, -tiles // sms, (tiles - 1) % sms + 1, -m * n, chosen["num_stages"]


def _is_for(candidate: Candidate, sms: int) -> bool:
    """Whether a config is not persistent on another number of SMs."""
    return candidate.config.decisions["PROGRAMS"] in (0, sms)


def _heuristics(device: str) -> dict[str, Score]:
    """NVIDIA's estimates; nothing where they are not installed."""
    try:
        return {HEURISTICS: Estimates(device).scores}
    except (ImportError, OSError) as error:
        print(f"{HEURISTICS} is left out: {error}. `pip install nvidia-matmul-heuristics` to have it.")
        return {}


class Estimates:
    """Run times that nvidia-matmul-heuristics expects of Triton's kernels.

    It knows GPUs by name and takes no number of SMs: it ranks alike on any part of one. It is told tiles,
    stages and splits; of persistent programs it knows nothing, so that those for other SMs come last.

    Args:
        device: Name of an H100 or H200.

    Raises:
        ImportError: It is not installed.
        OSError: Its library cannot be loaded.
    """

    def __init__(self, device: str) -> None:
        import nvMatmulHeuristics

        gpus = nvMatmulHeuristics.NvMatmulHeuristicsNvidiaGpu
        self._row_major = nvMatmulHeuristics.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
        self._library = nvMatmulHeuristics.NvMatmulHeuristicsInterfaceEx(
            backend=nvMatmulHeuristics.NvMatmulHeuristicsTarget.TRITON,
            gpu=gpus.H200_SXM if "H200" in device else gpus.H100_SXM,
        )

    def scores(self, candidates: Sequence[Candidate], sms: int) -> FloatArray:
        """The shorter, the better."""
        return np.array([-self.seconds(each) if _is_for(each, sms) else -np.inf for each in candidates])

    def seconds(self, candidate: Candidate) -> float:
        """Of one config on the whole GPU."""
        library, dims = self._library, candidate.workload.dims
        sizes = (dims["m"], dims["n"], dims["k"])
        problem = library.makeNvMatmulHeuristicsProblem(*sizes, self._row_major, dims.get("b", 1))
        kernel = self._kernel(candidate.config.decisions)
        return float(
            library.nvMatmulHeuristicsEstimateRuntime(
                library.handle,
                _PRECISION[candidate.workload.dtype],
                ctypes.c_int(library.target),
                ctypes.byref(problem),
                ctypes.byref(kernel),
                library.hardware_descriptor,
            )
        )

    def _kernel(self, chosen: Any) -> Any:
        """A config in its words; warps lie along the rows first."""
        m, n, k = chosen["BLOCK_M"], chosen["BLOCK_N"], chosen["BLOCK_K"]
        down = min(chosen["num_warps"], m // 16)
        kernel = self._library.nvmmhKernelConfiguration()
        kernel.cta[:] = (m, n, k)
        kernel.warp[:] = (m // down, n * down // chosen["num_warps"], k)
        kernel.instr[:] = (16, 8, 16)
        kernel.splitK, kernel.loadStages = chosen["SPLIT_K"], chosen["num_stages"]
        kernel.gridSwizzle, kernel.cluster[:] = 1, (1, 1)
        return kernel
