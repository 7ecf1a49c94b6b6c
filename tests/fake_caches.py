"""Fake cache files of Kernel Tuner: one kernel of twelve configs on devices that rank them alike."""

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

TUNE_PARAMS = {"block": [16, 32, 64], "tile": [1, 2], "layout": ["row", "col"], "filter": [15]}


def fake_cache(device: str = "NVIDIA A", slowness: float = 1.0) -> dict[str, Any]:
    """A cache whose best config is block 32, tile 2, layout col; block 64 with tile 2 does not compile."""
    entries = {}
    for values in product(*TUNE_PARAMS.values()):
        block, tile, layout, _ = values
        mean = slowness * (1.0 + abs(block - 32) / 16 + (2 - tile) + 0.3 * (layout == "row"))
        failed = (block, tile) == (64, 2)
        entries[",".join(map(str, values))] = {
            **dict(zip(TUNE_PARAMS, values, strict=True)),
            "time": "CompilationFailedConfig" if failed else mean,
            **({} if failed else {"times": [0.999 * mean, mean, 1.001 * mean]}),
            "timestamp": "2023-01-29 05:49:35+02:00",
        }
    return {
        "device_name": device,
        "kernel_name": "convolution_kernel",
        "problem_size": [4096, 2048],
        "tune_params_keys": list(TUNE_PARAMS),
        "tune_params": TUNE_PARAMS,
        "cache": entries,
    }


def write_cache(path: Path, cache: dict[str, Any]) -> Path:
    """Write it, gzipped if the name says so, and give the path."""
    data = json.dumps(cache).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path
