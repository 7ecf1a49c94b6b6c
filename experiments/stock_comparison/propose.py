"""Add kernels from elsewhere to a campaign, as its next round; `costmodel collect run` then measures them.

    python experiments/stock_comparison/propose.py CONFIG FOLDER --known DATASET
    python experiments/stock_comparison/propose.py CONFIG FOLDER --found FILE

`--known` takes every kernel that a dataset has of the campaign's workloads, `--found` the fastest kernels of
the stock searches in a result file of run.py.
"""

import argparse
import json
from itertools import count
from pathlib import Path

import msgspec

from costmodel.collector import CampaignConfig, CampaignFolder
from costmodel.dataset import load_dataset
from costmodel.records import Candidate, Workload


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="of the campaign")
    parser.add_argument("folder", type=Path, help="of the campaign; made if it is not there")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--known", type=Path, metavar="DATASET", help="take all kernels of a dataset")
    source.add_argument("--found", type=Path, metavar="FILE", help="take the finalists of stock searches")
    args = parser.parse_args()
    config, folder = CampaignConfig.load(args.config), CampaignFolder(args.folder)
    folder.claim(config)
    candidates = of_dataset(args.known, config.workloads) if args.known else of_searches(args.found)
    for workload in config.parsed_workloads:
        proposed = propose(folder, workload, [c for c in candidates if c.workload == workload])
        print(f"{workload.name}: {proposed} kernels", flush=True)


def of_dataset(path: Path, workloads: tuple[str, ...]) -> list[Candidate]:
    """All kernels that a dataset has of some workloads."""
    data = load_dataset(path, workloads=workloads)
    return list(data.candidates)


def of_searches(file: Path) -> list[Candidate]:
    """The fastest kernels of the stock searches of run.py."""
    found = [kernel for row in json.loads(file.read_text()) for kernel in row.get("stock", [])]
    return msgspec.convert(found, list[Candidate])


def propose(folder: CampaignFolder, workload: Workload, candidates: list[Candidate]) -> int:
    """Write those that no round has as the next round; how many."""
    drawn: set[str] = set()
    for round_ in count():
        earlier = folder.proposals(workload, round_)
        if earlier is None:
            break
        drawn |= {candidate.candidate_id for candidate in earlier}
    new = list({c.candidate_id: c for c in candidates if c.candidate_id not in drawn}.values())
    if new:
        folder.write_proposals(workload, round_, new)
    return len(new)


if __name__ == "__main__":
    main()
