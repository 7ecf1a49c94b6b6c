"""What the plug-in's cost model costs beside MetaSchedule's XGBModel: see README.md here."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms

from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.integrations.tvm import CostModel, named_platform
from costmodel.kernels import open_space
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Workload
from costmodel.transfer import LearningRows, TransferModel, make_model

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table
from options import parse_options

WORKLOADS = (
    "matmul-m512-n512-k512",
    "matmul_bias_gelu-m512-n512-k512-float16",
    "batch_matmul-b12-m128-n128-k64",
    "softmax-m512-n512",
)
UNKNOWN = "none: row sums of exp(x) + x"
DATA = Path(__file__).parents[2] / "datasets" / "h100-sm-budgets"
PLATFORM = named_platform("NVIDIA H100 80GB HBM3", 32)


def main() -> None:
    """Time both models on the same candidates of several programs, and print a table."""
    args = parse()
    register_tensor_intrinsics()
    model = train(args.learner)
    rows = [compare(name, model, args) for name in (*(args.workload or WORKLOADS), UNKNOWN)]
    print(table(rows))
    if args.json:
        write_json(args.json, rows)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", action="append", help="name; again for more (default: four)")
    parser.add_argument("--candidates", type=int, help="in a call")
    parser.add_argument("--batches", type=int, help="calls of update, each followed by a predict")
    parser.add_argument("--learner", help="pretrained model of the plug-in")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


def train(learner: str) -> TransferModel:
    """A pretrained model; what it learned does not matter here, so that some of the data will do."""
    data = LearningRows.of(load_dataset(DATA))
    return data.fit(make_model(learner, data.features.columns), np.arange(0, len(data.rows), 4))


def compare(name: str, model: TransferModel, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds that each model takes for the same calls, in turns."""
    context = context_of(row_sums() if name == UNKNOWN else open_space(Workload.parse(name), "cuda").module)
    batches = draw(context, args.candidates, args.batches + 1)
    models = {
        "ours": CostModel(model, platform=PLATFORM),
        "stock": ms.cost_model.XGBModel(num_tuning_cores=1, num_warmup_samples=1, verbose_eval=0),
    }
    seconds = {key: {"update": 0.0, "predict": 0.0} for key in models}
    rng = np.random.default_rng(0)
    for batch, unseen in pairwise(batches):
        results = [ms.runner.RunnerResult([1e-4 * s], None) for s in rng.lognormal(size=len(batch))]
        for key, one in models.items():
            seconds[key]["update"] += timed(lambda m=one, b=batch, r=results: m.update(context, b, r))
            seconds[key]["predict"] += timed(lambda m=one, b=unseen: m.predict(context, b))
    counts = {"update": sum(map(len, batches[:-1])), "predict": sum(map(len, batches[1:]))}
    return {"workload": name, "candidates": counts, **seconds}


def context_of(module: Any) -> Any:
    """MetaSchedule's context, on one thread as everything here."""
    return ms.TuneContext(
        mod=module,
        target=tvm.target.Target("nvidia/nvidia-h100"),
        space_generator="post-order-apply",
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=128, genetic_num_iters=1, init_min_unmeasured=32
        ),
        rand_state=1,
        num_threads=1,
    )


def row_sums() -> Any:
    """A program that is none of our workloads."""
    x = te.placeholder((512, 512), name="x")
    y = te.compute((512, 512), lambda i, j: te.exp(x[i, j]) + x[i, j], name="y")
    j = te.reduce_axis((0, 512), "j")
    return tvm.IRModule({"main": te.create_prim_func([x, te.compute((512,), lambda i: te.sum(y[i, j], j))])})


def draw(context: Any, size: int, count: int) -> list[Sequence[Any]]:
    """Batches of distinct candidates by stock's evolution.

    Raises:
        RuntimeError: It does not find two; fewer than ``count``, and smaller ones, are taken.
    """
    spaces = context.generate_design_space()
    database, model = ms.database.MemoryDatabase(), ms.cost_model.RandomModel(seed=1)
    context.pre_tuning(size * count, size, spaces, database, model)
    batches: list[Sequence[Any]] = []
    while len(batches) < count and (batch := context.generate_measure_candidates()):
        context.notify_runner_results(batch, [ms.runner.RunnerResult([1.0], None)] * len(batch))
        batches.append(batch)
    if len(batches) < 2:
        raise RuntimeError(f"stock's evolution must find two batches, but found {len(batches)}")
    return batches


def timed(call: Callable[[], Any]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: milliseconds a candidate, and ours over stock's."""
    header = ("program", "predict: ours, ms", "stock, ms", "ratio", "update: ours, ms", "stock, ms", "ratio")
    lines = []
    for row in rows:
        cells = []
        for call in ("predict", "update"):
            count = row["candidates"][call]
            ours, stock = (1e3 * row[key][call] / count for key in ("ours", "stock"))
            cells += [f"{ours:.2f}", f"{stock:.2f}", f"{ours / stock:.2f}"]
        lines.append([row["workload"], *cells])
    return markdown_table(header, lines)


if __name__ == "__main__":
    main()
