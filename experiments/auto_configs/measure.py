"""How good is a list of configs that is made from the kernel alone? See README.md here."""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from open_families import ARCHITECTURE, AUTHORS, OPENED, PLACES, SMS

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._devices import CudaRunner
from costmodel.files import cache_folder
from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.triton._read_cache import ReadCache
from costmodel.kernels.triton._read_many import ManyReader
from costmodel.kernels.triton._source import TritonSource
from costmodel.kernels.triton.proposing._open_family import OpenFamily
from costmodel.records import Candidate, Config, find_device
from costmodel.records._platform import Platform, part_of
from costmodel.transfer._read_ranker import shipped_ranker

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

READ_ON = "NVIDIA H100 80GB HBM3"  # what lists are made for
AGAIN = 2  # configs of each list that are timed again
MOST = 1 << 20


@dataclass(frozen=True)
class Proposals:
    """Configs of a kernel on each number of SMs, the most promising first, and what making them took."""

    kernel: str
    configs: Mapping[int, Sequence[Mapping[str, Any]]]
    seconds: float


def main(argv: Sequence[str] | None = None) -> None:
    """Propose configs, time them beside the author's, and tell how they compare."""
    args = parse(argv)
    end = time.monotonic() + args.seconds
    names = chosen(args)
    source = TritonSource([*PLACES, str(Path(__file__).with_name("open_families.py"))])
    args.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with CudaRunner(sources=[source], build_workers=args.builders) as runner:
        for proposals in propose_all(names, args, end, lambda each: runner.prefetch(of(each, args))):
            rows += compare(proposals, runner, args)
            save(rows, args)
            if time.monotonic() > end:
                break
    print(table(pd.DataFrame(rows)) if rows else "Nothing was timed.")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--seconds", type=float, help="after which no further kernel is begun")
    parser.add_argument("--kernels", type=int, help="most kernels, drawn at random")
    parser.add_argument(
        "--author", type=int, help="configs drawn from the author's space, beside the default"
    )
    parser.add_argument("--listed", type=int, help="configs of a list that is made")
    parser.add_argument("--further", type=int, help="configs that come next, timed to learn from")
    parser.add_argument("--random", type=int, help="configs of those that were read, timed to learn from")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--shard", metavar="I/N", help="takes every Nth kernel from the Ith on")
    parser.add_argument("--readers", type=int, help="kernels for which lists are made at once")
    parser.add_argument("--builders", type=int, help="processes that compile")
    return parse_options(parser, __file__, argv)


def chosen(args: argparse.Namespace) -> list[str]:
    """Names of the kernels of this shard, in a random order."""
    names = random.Random(args.seed).sample(sorted(OPENED), args.kernels)
    first, step = map(int, args.shard.split("/"))
    return names[first::step]


def propose_all(
    names: Sequence[str], args: argparse.Namespace, end: float, made: Callable[[Proposals], None]
) -> Iterator[Proposals]:
    """Make lists for kernels side by side; yield each as it is asked for, until the time is up."""
    with get_context("spawn").Pool(args.readers) as pool:
        for waiting in [pool.apply_async(propose, (name,), callback=made) for name in names]:
            try:
                yield waiting.get(timeout=max(1.0, end - time.monotonic()))
            except TimeoutError:
                print("The time is up before a list.", file=sys.stderr, flush=True)
                break
            except Exception as error:  # noqa: BLE001 (a kernel without a list is told of)
                print(f"no list: {error}"[:300], file=sys.stderr, flush=True)


def propose(name: str) -> Proposals:
    """Make the lists of a kernel, all configs that were read."""
    start = time.monotonic()
    reader = ManyReader(ReadCache(cache_folder("auto_configs")), workers=4, timeout_s=60.0, with_faults=True)
    family = AUTHORS[name]
    found = {}
    for sms in SMS:
        opened = OpenFamily(family, family.workload(), ARCHITECTURE, sms)
        listed = opened.propose(MOST, reader, partial(rank, sms))
        found[sms] = [dict(each.decisions) for each in listed]
    return Proposals(name, found, time.monotonic() - start)


def rank(sms: int, facts: Sequence[ReadFacts]) -> Any:
    return shipped_ranker().predict(facts, _platform(sms))


@cache
def _platform(sms: int) -> Platform:
    return part_of(find_device(READ_ON), sms)


def of(proposals: Proposals, args: argparse.Namespace) -> list[Candidate]:
    """All that is timed of a kernel."""
    listed = {
        Config(config).config_id: config
        for configs in proposals.configs.values()
        for _, config in to_time(configs, args)
    }
    return [*authors_configs(proposals.kernel, args), *opened(proposals.kernel, listed.values())]


def compare(proposals: Proposals, runner: Runner, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time the author's configs and those of the lists, each on its SMs."""
    name, author = proposals.kernel, authors_configs(proposals.kernel, args)
    rows = []
    for sms, configs in proposals.configs.items():
        platform, ranks = runner.platform(sms), to_time(configs, args)
        both = [("author", -1, each) for each in author]
        listed = opened(name, [config for _, config in ranks])
        both += [("auto", rank, each) for (rank, _), each in zip(ranks, listed, strict=True)]
        measured = runner.measure([each for *_, each in both], platform)
        again = best_of(both, measured)
        repeated = runner.measure([each for *_, each in again], platform, visit=1)
        for visit, entries, told in ((0, both, measured), (1, again, repeated)):
            rows += [
                row_of(name, sms, kind, rank, each, visit=visit, seconds=proposals.seconds)
                for (kind, rank, _), each in zip(entries, told, strict=True)
            ]
    return rows


def authors_configs(name: str, args: argparse.Namespace) -> list[Candidate]:
    """The author's default, and configs drawn from the author's space."""
    family = AUTHORS[name]
    space, rng = family.space(family.workload()), np.random.default_rng(args.seed)
    drawn = [space.default, *(space.sample(rng) for _ in range(20 * args.author))]
    distinct = {each.config_id: each for each in drawn}
    return [space.candidate(each) for each in list(distinct.values())[: args.author + 1]]


def to_time(
    configs: Sequence[Mapping[str, Any]], args: argparse.Namespace
) -> list[tuple[int, Mapping[str, Any]]]:
    """The list, what comes next, and a few at random, with their rank."""
    first = args.listed + args.further
    rest = list(enumerate(configs))[first:]
    drawn = random.Random(args.seed).sample(rest, min(args.random, len(rest)))
    return [*list(enumerate(configs))[:first], *drawn]


def opened(name: str, configs: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """Candidates of the kernel with its parameters open."""
    family = OPENED[name]
    space = family.space(family.workload())
    return [space.candidate(Config(config)) for config in configs]


def best_of(
    both: Sequence[tuple[str, int, Candidate]], measured: Sequence[Any]
) -> list[tuple[str, int, Candidate]]:
    """The best of each list."""
    found = []
    for kind in ("author", "auto"):
        ran = [i for i, each in enumerate(both) if each[0] == kind and measured[i].latencies_s]
        found += [both[i] for i in sorted(ran, key=lambda i: measured[i].latency_s)[:AGAIN]]
    return found


def row_of(name: str, sms: int, kind: str, rank: int, measurement: Any, **more: Any) -> dict[str, Any]:
    decisions = measurement.candidate.config.decisions
    return {
        "kernel": name,
        "sms": sms,
        "list": kind,
        "rank": rank,
        "config": " ".join(f"{key}={value}" for key, value in decisions.items()),
        "outcome": str(measurement.outcome),
        "latency_us": measurement.latency_s * 1e6 if measurement.latencies_s else float("nan"),
        "error": measurement.error[:80],
        "device": measurement.platform.device.name,
        **more,
    }


def save(rows: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> None:
    table = pd.DataFrame(rows).astype(
        dict.fromkeys(("kernel", "list", "config", "outcome", "error", "device"), "category")
    )
    file = args.out / f"auto-{args.shard.replace('/', '-of-')}.parquet"
    table.to_parquet(file, compression="zstd", index=False)


def table(rows: pd.DataFrame) -> str:
    """Best of the author's over best of the list, by SMs and length of the list."""
    lines = [
        "| SMs | kernels | first | 8 | 16 | 32 | default of the author | wrong | failed |",
        "|---" * 9 + "|",
    ]
    first = rows[rows.visit == 0]
    for sms, part in first.groupby("sms"):
        shares: dict[Any, list[float]] = {length: [] for length in (1, 8, 16, 32, "default")}
        for _, task in part.groupby("kernel", observed=True):
            author, auto = task[task.list == "author"], task[task.list == "auto"]
            best = author.latency_us.min()
            for length in (1, 8, 16, 32):
                found = auto[auto["rank"] < length].latency_us.min()
                shares[length].append(best / found if found > 0 else 0.0)
            shares["default"].append(best / author.latency_us.iloc[0])
        auto = part[(part.list == "auto") & (part["rank"] < 16)]
        told = [f"{np.nanmedian(each):.3f} ({np.nanmean(each):.3f})" for each in shares.values()]
        wrong, failed = (auto.outcome == "wrong_result").mean(), (auto.outcome != "ok").mean()
        lines.append(f"| {sms} | {part.kernel.nunique()} | {' | '.join(told)} | {wrong:.3f} | {failed:.3f} |")
    again = rows[rows.visit == 1].merge(first, on=["kernel", "sms", "list", "rank", "config"])
    if len(again):
        noise = (again.latency_us_x / again.latency_us_y - 1).abs().median()
        lines.append(f"\nAgain: median difference {noise:.3%} over {len(again)}.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
