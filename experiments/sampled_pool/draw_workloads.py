"""Draw the workloads of configs/sampled-sm-budgets.toml, and print their names.

Operators that the published campaigns have few of are drawn more often, and none is a near-twin of a workload
of theirs or of a shape kept for blind tests.
"""

import tomllib
from collections import Counter
from pathlib import Path

from costmodel.records._workload import Shape, Workload
from costmodel.workloads._sample import sample_workloads

CONFIGS = Path(__file__).parents[2] / "configs"
SEED = 2027
# How many of each family; `learn`, `choose` and `report` take 2, 1.5 and 1.5 of every five.
QUOTAS = {
    "matmul": 30,
    "batch_matmul": 25,
    "conv2d": 35,
    "depthwise_conv2d": 20,
    "softmax": 20,
    "layer_norm": 15,
    "rms_norm": 15,
}


def main() -> None:
    """Print one name a line, in an order in which every prefix has all families."""
    campaigns = [
        tomllib.loads((CONFIGS / f"{name}.toml").read_text()) for name in ("sm-budgets", "wide-sm-budgets")
    ]
    taken = [Workload.parse(name).shape for campaign in campaigns for name in campaign["workloads"]]
    blind = [Shape.parse(name) for name in campaigns[1]["leave_out"]]
    drawn = sample_workloads(900, SEED, apart_from=[*taken, *blind])
    counts: Counter[str] = Counter()
    chosen: list[tuple[float, str]] = []
    for workload in drawn:
        family = next(
            name for name in sorted(QUOTAS, key=len, reverse=True) if workload.kind.startswith(name)
        )
        if counts[family] < QUOTAS[family]:
            chosen.append((counts[family] / QUOTAS[family], workload.name))
            counts[family] += 1
    short = {family: QUOTAS[family] - counts[family] for family in QUOTAS if counts[family] < QUOTAS[family]}
    if short:
        raise SystemExit(f"Draw more: {short} are missing.")
    print("\n".join(name for _, name in sorted(chosen)))


if __name__ == "__main__":
    main()
