"""Records of auto_scheduler, written by hand after its documented format: no measurement is behind them."""

import json
from typing import Any

KEY = json.dumps(["matmul", 128, 64, 256, "float32"])
CPU = "llvm -keys=cpu -mcpu=skylake -num-cores=4"
GPU = "cuda -keys=cuda,gpu -max_num_threads=1024 -model=t4 -thread_warp_size=32"
# A step of each kind.
STEPS: list[list[Any]] = [
    ["CHW", 2, "local"],
    ["CHR", 0, "shared", [2]],
    ["CI", 5],
    ["CR", 4],
    ["RF", 2, 1, 1],
    ["SP", 3, 0, 128, [4, 2, 8], 1],
    ["SP", 3, 4, 64, [16], 0],
    ["SP", 3, 0, 0, [32], 1],
    ["FSP", 4, 0, 1, 2],
    ["FFSP", 1, 0, [6, 5], 1, 1],
    ["RE", 3, [0, 2, 1]],
    ["FU", 4, [0, 1]],
    ["SA", 1, 0, 32, 8],
    ["CA", 3, 4, 5],
    ["AN", 4, 0, 3],
    ["PR", 3, 0, "auto_unroll_max_step$64"],
    ["PR", 3, 0, "debug_skip_region"],
]


def fake_line(**changes: Any) -> dict[str, Any]:
    """A record as TVM 0.14 writes it; ``changes`` by the names of its fields."""
    parts = {
        "key": KEY,
        "target": GPU,
        "behind": [[-1, 16, 64, 49152, 65536, 1024, 8, 32], "", 1, []],
        "steps": STEPS,
        "costs": [1e-3, 1.1e-3],
        "error": 0,
        "took": 0.5,
        "time": 1626295478,
        "version": "v0.6",
    } | changes
    task = [parts["key"], parts["target"], *parts["behind"]]
    result = [parts["costs"], parts["error"], parts["took"], parts["time"]]
    return {"i": [task, [[], parts["steps"]]], "r": result, "v": parts["version"]}
