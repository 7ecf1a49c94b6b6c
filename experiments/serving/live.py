"""Rows that ``serve-tables --timings`` chose on this GPU, beside a sweep of rows of any table, in one run."""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._devices import CudaRunner
from costmodel.files import write_json
from costmodel.kernels.triton._source import TritonSource
from costmodel.records._measurement import Outcome
from costmodel.serving import serve_tables
from costmodel.serving._choose import offered_rows, room_of
from costmodel.serving._default_rule import default_row
from costmodel.serving._kernel import Kernel, Row
from costmodel.serving._model_config import read_served_model
from costmodel.serving._time import candidate_of

_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_ATTENTION = {"num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128}


class Served(NamedTuple):
    """A model of which nothing is in a dataset of ours, and how many GPUs share each expert."""

    name: str
    config: dict[str, Any]
    gpus: int


MODELS = (
    Served(
        "GLM-4.5-Air",
        {
            **{"model_type": "glm4_moe", "hidden_size": 4096, "moe_intermediate_size": 1408},
            **{"n_routed_experts": 128, "num_experts_per_tok": 8, **_ATTENTION},
        },
        2,
    ),
    Served(
        "Qwen3-Coder-480B",
        {
            **{"model_type": "qwen3_moe", "hidden_size": 6144, "moe_intermediate_size": 2560},
            **{"num_experts": 160, "num_experts_per_tok": 8, **_ATTENTION, "quantization_config": _BLOCKS},
        },
        4,
    ),
)
TOKENS = (64, 4, 512)


def main() -> None:
    """Choose, then sweep, a number of tokens after the other; what is found so far is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--timings", type=int, default=16)
    parser.add_argument("--sweep", type=int, default=60, help="configs that it is compared with")
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    with CudaRunner(sources=[TritonSource()]) as runner:
        end = time.monotonic() + options.seconds
        for tokens in TOKENS:
            for model in MODELS:
                if time.monotonic() < end:
                    found.append(_judge(runner, model, tokens, options))
                    write_json(options.out, found)
                    print(json.dumps(found[-1]), flush=True)


def _judge(runner: Runner, model: Served, tokens: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time what serve-tables tells, with timings and without, beside the default and rows of any table."""
    device = runner.platform().device
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        write_json(file, model.config)
        kernel = read_served_model(file, tensor_parallel=model.gpus).kernels["experts"]
        rows = {"default": default_row("vllm", kernel, tokens)}
        begun = time.monotonic()
        for way, timings in (("told", None), ("timed", options.timings)):
            served = serve_tables(
                file, device.name, tensor_parallel=model.gpus, tokens=[tokens], timings=timings, on=runner
            )
            rows[way] = next(
                (each.rows[tokens].config for each in served.tables.values() if each.kernel == kernel),
                rows["default"],
            )
        took = time.monotonic() - begun
    offered = offered_rows(kernel, room_of(device))
    order = np.random.default_rng(tokens).permutation(len(offered))
    seconds = _time(runner, kernel, tokens, [*rows.values(), *(offered[i] for i in order[: options.sweep])])
    return {
        **{
            "model": model.name,
            "tokens": tokens,
            "configs": len(seconds),
            "choosing took, s": round(took, 1),
        },
        "above the best": {
            way: round(s / min(seconds) - 1, 4) for way, s in zip(rows, seconds, strict=False)
        },
        "rows": {way: [*row.values()] for way, row in rows.items()},
        "seconds": [float(f"{each:.4g}") for each in seconds],
    }


def _time(runner: Runner, kernel: Kernel, tokens: int, rows: list[Row]) -> list[float]:
    """Return the seconds of all products of each row; infinite where one is none or failed."""
    spaces = [TritonSource().space(each, "cuda") for each in kernel.workloads(tokens)]
    made = [[candidate_of(space, row) for space in spaces] for row in rows]
    total = np.zeros(len(rows))
    for candidates in zip(*made, strict=True):
        known = [each for each in candidates if each]
        measured = iter(runner.measure(known, runner.platform()))
        for i, each in enumerate(candidates):
            found = next(measured) if each else None
            total[i] += found.latency_s if found and found.outcome is Outcome.OK else np.inf
    return [float(each) for each in total]


if __name__ == "__main__":
    main()
