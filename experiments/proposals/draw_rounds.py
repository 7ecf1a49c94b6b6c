"""Draw the last two rounds of a campaign with a prior from other workloads, into its folder.

    python experiments/proposals/draw_rounds.py FOLDER

FOLDER is that of `costmodel collect run configs/sm-budgets.toml`, six rounds measured (`rounds = 6`).
The same command as it is then measures what is drawn here. The workloads make four groups: boosted trees
learn from three of them what the Gaussian process of a workload in the fourth corrects.
"""

import argparse
from pathlib import Path

import numpy as np

from costmodel.collector import CampaignConfig
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.features import extract
from costmodel.learners import XGBoostLearner
from costmodel.records import Measurement, Workload, read_records
from costmodel.search._propose import propose_candidates

CONFIG = Path("configs/sm-budgets.toml")
GROUPS, ROUNDS = 4, (7, 8)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    path = parser.parse_args().folder
    config, folder = CampaignConfig.load(CONFIG), CampaignFolder(path)
    measured = measurements_by_workload(path / "measurements.jsonl")
    names = list(config.workloads)
    for group in range(GROUPS):
        held_out = names[group::GROUPS]
        prior = learn([m for name, ms in measured.items() if name not in held_out for m in ms])
        for name in held_out:
            draw(config, folder, Workload.parse(name), measured[name], prior)
            print(f"{name}: drawn", flush=True)


def measurements_by_workload(store: Path) -> dict[str, list[Measurement]]:
    """First visits, without those under MPS."""
    found: dict[str, list[Measurement]] = {}
    for measurement in read_records(store):
        if measurement.visit == 0 and measurement.platform.isolation != "mps":
            found.setdefault(measurement.candidate.workload.name, []).append(measurement)
    return found


def learn(measurements: list[Measurement]) -> XGBoostLearner:
    table = extract([m.candidate for m in measurements], [m.platform for m in measurements])
    latencies = np.array([m.latency_s for m in measurements])
    tasks = np.array([f"{m.candidate.workload.name} {m.platform.name}" for m in measurements])
    return XGBoostLearner(table.index("log2_roofline_s"), n_jobs=2).fit(table.values, latencies, tasks)


def draw(
    config: CampaignConfig,
    folder: CampaignFolder,
    workload: Workload,
    measured: list[Measurement],
    prior: XGBoostLearner,
) -> None:
    """Propose both rounds at once, unless they are there."""
    first, second = ROUNDS
    if folder.proposals(workload, first) is not None:
        return
    each, budgets = config.kernels.per_round, config.kernels.good_at
    seed = config.draw_seed(workload, first)
    known = [m for m in measured if m.platform.sms_requested in budgets]
    proposed = propose_candidates(
        workload, "cuda", 2 * each, seed, measured=known, budgets=budgets, prior=prior
    )
    folder.write_proposals(workload, second, proposed[each:])
    folder.write_proposals(workload, first, proposed[:each])


if __name__ == "__main__":
    main()
