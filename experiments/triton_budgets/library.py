"""What the library takes for what Triton's kernels compute."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from held_out import of_source, tasks_of

from costmodel.dataset import Dataset

PYTORCH, TOLD, FASTEST = "PyTorch's call", "cuBLASLt told its SMs", "cuBLASLt told, best of its algorithms"


def judge_library(data: Dataset) -> pd.DataFrame:
    """Time of each call over the best recorded Triton config, less 1 (``excess``), task by task."""
    triton, library = of_source(data, "triton"), of_source(data, "library")
    best_s = triton.rows.groupby(triton.rows["task"].astype(str))["latency_s"].min()
    found = []
    for task, rows in tasks_of(library):
        if np.isfinite(best_s.get(task, np.inf)):
            place = {"task": task, "sms": int(rows["sms_granted"].iloc[0])}
            for way, seconds in _calls(library, rows):
                found.append({**place, "way": way, "excess": seconds / best_s[task] - 1.0})
    return pd.DataFrame(found, columns=["task", "sms", "way", "excess"])


def _calls(data: Dataset, rows: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """The fastest of PyTorch's own calls; of cuBLASLt's, told its SMs, the first algorithm and the fastest.

    On a whole GPU there is nothing to tell (0).
    """
    platform = data.platforms[rows["platform"].iloc[0]]
    target = 0 if platform.isolation == "whole" else platform.sms_granted
    own, told = list[float](), dict[Any, float]()
    for i, seconds in zip(rows["candidate"], rows["latency_s"], strict=True):
        chosen = data.candidates[i].config.decisions
        if not np.isfinite(seconds):
            continue
        if chosen["call"] != "cublaslt":
            own.append(float(seconds))
        elif chosen["sm_target"] == target:
            told[chosen["algorithm"]] = float(seconds)
    if own:
        yield PYTORCH, min(own)
    if told:
        yield TOLD, told[min(told)]
        yield FASTEST, min(told.values())
