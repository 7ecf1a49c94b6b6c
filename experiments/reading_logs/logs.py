"""Made-up files: a cache of Kernel Tuner, a log of auto_scheduler, a database of MetaSchedule."""

import json
from itertools import product
from pathlib import Path

import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.kernels import make_target, open_space
from costmodel.kernels.metaschedule._database_json import database_record, database_workload
from costmodel.records import Workload

WORKLOADS = (
    "matmul-m128-n768-k3072",
    "matmul_bias_gelu-m64-n3072-k768",
    "conv2d_bias_relu-n1-c64-h56-w56-o64-k3-s1",
    "softmax-m1536-n128",
    "batch_matmul-b12-m128-n128-k64",
    "layer_norm-m128-n768",
    "depthwise_conv2d-n1-c32-h112-w112-k3-s1",
)
REPEATS = 32
PLATFORM = 'device = "RTX 3090"\n'


def write_cache(path: Path, size: int) -> int:
    """Write a cache of Kernel Tuner of about so many bytes; how many entries it has."""
    values = list(range(1, 33))
    names = [f"tile_{i}" for i in range(5)]
    header = {
        "device_name": "NVIDIA GeForce RTX 3090",
        "kernel_name": "gemm",
        "problem_size": [4096, 4096],
        "tune_params_keys": names,
        "tune_params": dict.fromkeys(names, values),
    }
    rng = np.random.default_rng(0)
    entries = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header)[:-1] + ', "cache": {')
        for config in product(values, repeat=5):
            times = rng.normal(2.0, 0.01, REPEATS).tolist()
            entry = {**dict(zip(names, config, strict=True)), "times": times, "time": float(np.mean(times))}
            file.write(
                ("," if entries else "") + f"\n{json.dumps(','.join(map(str, config)))}: {json.dumps(entry)}"
            )
            entries += 1
            if file.tell() >= size:
                break
        file.write("}}")
    return entries


def write_log(path: Path, lines: int) -> None:
    """Write a log of auto_scheduler: tiled matrix products."""
    task = [json.dumps(["matmul", 128, 64, 256]), "cuda -keys=cuda,gpu -model=3090", [-1, 16, 64], "", 1, []]
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            tiles = [["SP", 3, 4 * i, 4096, (2 ** rng.integers(0, 4, 3)).tolist(), 1] for i in range(5)]
            steps = [["CI", 2], ["CHW", 3, "local"], *tiles, ["PR", 3, 0, "auto_unroll_max_step$64"]]
            result = [rng.normal(1e-3, 1e-5, 3).tolist(), 0, 0.5, 1626295478]
            file.write(json.dumps({"i": [task, [[], steps]], "r": result, "v": "v0.6"}) + "\n")


def write_database(folder: Path, records: int) -> None:
    """Write a database of MetaSchedule: valid configs of all workloads, in no order."""
    folder.mkdir()
    rng, target = np.random.default_rng(0), make_target("cuda")
    lines: list[str] = []
    programs: list[str] = []
    for position, workload in enumerate(map(Workload.parse, WORKLOADS)):
        programs.append(json.dumps(database_workload(workload)) + "\n")
        space = open_space(workload, "cuda")
        while len(lines) < records * (position + 1) // len(WORKLOADS):
            try:
                record = database_record(space, space.sample(rng), target, [1e-5])
            except InvalidConfigError:
                continue
            lines.append(json.dumps([position, record], default=lambda number: number.value) + "\n")
    (folder / "database_workload.json").write_text("".join(programs))
    (folder / "database_tuning_record.json").write_text("".join(lines[i] for i in rng.permutation(records)))
