"""Time to screen 100,000 configs, beside TVM's per-store features: see README.md here."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.features._extract import COLUMNS, extract_batch
from costmodel.files import write_json
from costmodel.kernels import open_space
from costmodel.records import Candidate, Platform, Workload, find_device
from costmodel.records._candidate import ConfigBatch

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options
from per_store import per_store_features

WORKLOADS = ("matmul-m512-n1024-k768", "conv2d-n1-c64-h56-w56-o64-k3-s1")
SKETCH = 0
SMS = 32
REPEATS = 3  # of which the fastest counts: what else runs on the machine only adds to it
TREES, TRAINING_ROWS = 300, 5000


def main() -> None:
    """Time both ways on one core and print a table."""
    options = parse()
    results = [screen(Workload.parse(name), options) for name in options.workload or WORKLOADS]
    print_table(results)
    if options.json:
        write_json(options.json, results)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", action="append", help="instead of a matrix product and a convolution")
    parser.add_argument("--configs", type=int, help="drawn and screened")
    parser.add_argument("--lowered", type=int, help="of which TVM extracts its own features")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


def screen(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each step for one workload."""
    space, rng = open_space(workload, "cuda"), np.random.default_rng(0)
    device = find_device("NVIDIA H100 80GB HBM3")
    platform = Platform(device, "green_context", SMS, SMS)
    score = scorer(space.draw(SKETCH, TRAINING_ROWS, rng), platform)
    draw_s, batch = fastest(lambda: space.draw(SKETCH, options.configs, np.random.default_rng(1)))
    features_s, table = fastest(lambda: extract_batch(batch, platform))
    score_s, _ = fastest(lambda: score(table.values)) if score else (None, None)
    lowered = lowerable(space, batch, options.lowered)
    per_store_s, _ = fastest(lambda: per_store_features(lowered))
    return {
        "workload": workload.name,
        "configs": batch.size,
        "columns": len(COLUMNS),
        "draw_s": draw_s,
        "features_s": features_s,
        "score_s": score_s,
        "lowered": len(lowered),
        "per_store_s": per_store_s,
        "per_store_over_features": (per_store_s / len(lowered)) / (features_s / batch.size),
    }


def scorer(batch: ConfigBatch, platform: Platform) -> Callable[[np.ndarray], np.ndarray] | None:
    """An XGBoost model of usual size on one thread, trained on the analytic time; None without XGBoost."""
    if find_spec("xgboost") is None:
        return None
    import xgboost

    table = extract_batch(batch, platform)
    target = table.values[:, table.index("log2_analytic_s")]
    model = xgboost.XGBRegressor(n_estimators=TREES, max_depth=6, n_jobs=1).fit(table.values, target)
    predict: Callable[[np.ndarray], np.ndarray] = model.predict
    return predict


def fastest(step: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the fastest of a few calls, and what it gives."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        result = step()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def lowerable(space: Any, batch: ConfigBatch, count: int) -> list[Candidate]:
    """The first configs of the batch that TVM can schedule."""
    found: list[Candidate] = []
    for row in range(batch.size):
        (config,) = batch.configs([row])
        try:
            space.schedule(config)
        except InvalidConfigError:
            continue
        found.append(Candidate(batch.workload, space.name, config))
        if len(found) == count:
            break
    return found


def print_table(results: list[dict[str, Any]]) -> None:
    print("| workload | configs | draw s | features s | score s | per-store ms a config | times features |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in results:
        score = "-" if row["score_s"] is None else f"{row['score_s']:.2f}"
        print(
            f"| {row['workload']} | {row['configs']:,} | {row['draw_s']:.2f} | {row['features_s']:.2f} "
            f"| {score} "
            f"| {1e3 * row['per_store_s'] / row['lowered']:.1f} | {row['per_store_over_features']:,.0f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
