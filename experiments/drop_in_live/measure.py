"""How good, and how soon, is the drop-in's answer for kernels that nobody has seen? See README.md here."""

import argparse
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import triton
from cases import CASES, Case
from triton.testing import do_bench

from costmodel.collector import GreenContexts
from costmodel.integrations.triton import autotune

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

PARTS = (16, 32)
ROUND_MS = 6.0
WRONG, NEAR = 0.02, 1.05
KEPT: list[Any] = []  # streams die with their contexts


def main(argv: Sequence[str] | None = None) -> None:
    """Take all answers, keep each at once, and print a table."""
    args = parse(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    rows = []
    torch.manual_seed(0)
    first, step = map(int, args.shard.split("/"))
    with (args.out / f"live-{args.shard.replace('/', '-of-')}.jsonl").open("w") as file:
        for row in measure_all(args.kernels[first::step], args, end):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    print(table(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--seconds", type=float, help="after which no further kernel is begun")
    parser.add_argument("--shard", metavar="I/N", help="takes every Nth kernel from the Ith on")
    parser.add_argument("--kernels", nargs="+", help="of which the last are left out where the time is short")
    parser.add_argument("--shortlist", type=int, help="configs that ours times")
    parser.add_argument("--configs", type=int, help="of the author's list, drawn at random")
    parser.add_argument("--rounds", type=int, help="in which all configs are timed in turn")
    return parse_options(parser, __file__, argv)


def measure_all(names: Sequence[str], args: argparse.Namespace, end: float) -> Iterator[dict[str, Any]]:
    """Answers and latencies of kernels; what fails costs its kernel."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if time.monotonic() > end:
                print(f"no time for {name}", file=sys.stderr, flush=True)
                continue
            try:
                yield from Trial(name, CASES[name], Path(folder, name), args).rows()
            except Exception as error:  # noqa: BLE001 (it is kept)
                yield {"kernel": name, "what": "error", "error": f"{type(error).__name__}: {error}"[:500]}
                print(f"{name}: {error}"[:300], file=sys.stderr, flush=True)


@cache
def open_streams() -> Mapping[int, Any]:
    """Streams by the SMs that they have: parts of the GPU, and the whole last."""
    contexts, streams = GreenContexts(), dict[int, Any]()
    for sms in PARTS:
        (handle, *_), granted = contexts.streams(sms)
        streams[granted] = torch.cuda.ExternalStream(handle)
    streams[contexts.total_sms] = torch.cuda.Stream()
    KEPT.append(contexts)
    return streams


class Trial:
    """One kernel, on the whole GPU and on parts.

    Args:
        name: Name of the kernel.
        case: What is asked.
        folder: Where stores and caches are.
        args: Settings.
    """

    def __init__(self, name: str, case: Case, folder: Path, args: argparse.Namespace) -> None:
        self.name, self.case, self.folder, self.args = name, case, folder, args
        self.told = case.operands(*case.sizes[0], device="cuda")
        self.expected = case.expected(self.told)
        self.streams = open_streams()
        self.configs = random.Random(0).sample(case.configs, min(args.configs, len(case.configs)))
        self.timed = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Answers on all SMs; then all configs in turn.

        Nothing is known on the whole GPU, which comes first; on its parts what was compiled and read for it.
        """
        for at, sms in enumerate(reversed(self.streams)):
            answers = {
                "ours, nothing timed": self.answer("model", sms, mode="model"),
                "ours, a shortlist": self.answer("shortlist", sms, shortlist=self.args.shortlist),
            }
            if not at:  # these take as long on fewer SMs
                answers["triton.autotune"] = self.stock(sms)
                answers["ours, configs made"] = self.answer("auto", sms, configs="auto")
            self.take_folders("all")
            listed = self.configs
            made = [each["config"] for each in answers.values() if each["config"] is not None]
            us, again = self.microseconds([*listed, *made], sms)
            best = min(us[str(each)] for each in listed)
            for tuner, each in answers.items():
                told = {
                    "us": us.get(str(each["config"]), math.inf),
                    "best_us": best,
                    "config": str(each["config"]),
                }
                yield {
                    "kernel": self.name,
                    "what": "answer",
                    "sms": sms,
                    "cold": not at,
                    "tuner": tuner,
                    **each,
                    **told,
                }
            device = torch.cuda.get_device_name()
            listed_us = {str(each): us[str(each)] for each in listed}
            yield {
                "kernel": self.name,
                "what": "latencies",
                "sms": sms,
                "device": device,
                "us": listed_us,
                "again": again,
            }

    def answer(self, name: str, sms: int, configs: Any = None, **settings: Any) -> dict[str, Any]:
        """The first answer of ours, without any timings."""
        store = self.take_folders(name) / f"{sms}.jsonl"
        decorate = autotune(
            configs or self.configs, list(self.case.key), reset_to_zero=list(self.case.zeroed),
            store=store, do_bench=self.bench, **settings,
        )  # fmt: skip
        return self.first(decorate(triton.jit(self.case.kernel.fn)), sms)

    def stock(self, sms: int) -> dict[str, Any]:
        """The first answer of Triton's own."""
        self.take_folders("all")
        decorate = triton.autotune(
            self.configs, list(self.case.key), reset_to_zero=list(self.case.zeroed), do_bench=self.bench
        )
        return self.first(decorate(triton.jit(self.case.kernel.fn)), sms)

    def take_folders(self, name: str) -> Path:
        """Take the folders of a tuner for what is compiled and read."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        triton.knobs.cache.dir = str(folder / "compiled")
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        return folder

    def first(self, tuner: Any, sms: int) -> dict[str, Any]:
        """The config that a tuner takes, seconds until then, and the error of what it computed."""
        self.timed = 0
        for name in self.case.zeroed:
            self.told[name].zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.cuda.stream(self.streams[sms]):
            tuner[self.grid](**self.told)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        return {"config": tuner.best_config, "first_s": seconds, "timed": self.timed, "error": self.error()}

    def error(self) -> float:
        """The largest relative error of an output; of a kernel that adds up, only what it does not."""
        found = [
            float((self.told[name].float() - value).norm() / value.norm())
            for name, value in self.expected.items()
            if name not in self.case.zeroed
        ]
        return max((each if each < math.inf else 1e9) for each in found)

    @property
    def grid(self) -> Callable[[Mapping[str, int]], tuple[int, ...]]:
        return partial(self.case.grid, self.told)

    def bench(self, kernel_call: Callable[[], Any], quantiles: Sequence[float]) -> Any:
        self.timed += 1
        return do_bench(kernel_call, warmup=5.0, rep=20.0, quantiles=quantiles)

    def microseconds(self, configs: Sequence[Any], sms: int) -> tuple[dict[str, float], float]:
        """Latency of configs: the median of rounds, each in an order of its own; what fails takes forever.

        Returns:
            These, and how far the first two rounds are apart, in the median.
        """
        kernel, measured = triton.jit(self.case.kernel.fn), dict[str, list[float]]()
        distinct = list({str(each): each for each in configs}.items())
        with torch.cuda.stream(self.streams[sms]):
            for turn in range(self.args.rounds):
                for told, config in random.Random(turn).sample(distinct, len(distinct)):
                    launch = partial(kernel[self.grid], **self.told, **config.all_kwargs())
                    try:
                        ms = do_bench(launch, warmup=1, rep=ROUND_MS, return_mode="median")
                    except Exception:  # noqa: BLE001 (it needs too much of something)
                        ms = math.inf
                    measured.setdefault(told, []).append(1e3 * ms)
        ran = [each for each in measured.values() if max(each) < math.inf]
        again = statistics.median(abs(each[-1] / each[0] - 1) for each in ran)
        return {config: statistics.median(each) for config, each in measured.items()}, again


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """By tuner: the answer over the best of the list, and seconds until it."""
    lines = [
        "| tuner | cells | over the best: median | worst | within 5 % | seconds | timed | wrong |",
        "|---" * 8 + "|",
    ]
    answers = [row for row in rows if row["what"] == "answer"]
    for tuner in dict.fromkeys(row["tuner"] for row in answers):
        those = [row for row in answers if row["tuner"] == tuner]
        over = [row["us"] / row["best_us"] for row in those]
        seconds = statistics.median(row["first_s"] for row in those if row["cold"])
        wrong, timed = (
            sum(row["error"] > WRONG for row in those),
            statistics.median(row["timed"] for row in those),
        )
        lines.append(
            f"| {tuner} | {len(those)} | {statistics.median(over):.3f} | {max(over):.3f} | "
            f"{sum(each <= NEAR for each in over)} | {seconds:.2f} | {timed} | {wrong} |"
        )
    lines += [f"\n{line}" for line in (random_choice(rows), sooner(answers))]
    for row in answers:
        told = f"{row['us'] / row['best_us']:.3f}, {row['first_s']:.2f} s, {row['config']}"
        lines.append(f"{row['kernel']} {row['sms']} {row['tuner']}: {told}")
    lines += [f"{row['kernel']}: {row['error']}" for row in rows if row["what"] == "error"]
    return "\n".join(lines)


def random_choice(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a config drawn at random is above the best, and how far timings repeat."""
    tasks = [row for row in rows if row["what"] == "latencies"]
    over = [us / min(row["us"].values()) for row in tasks for us in row["us"].values() if us < math.inf]
    again = [row["again"] for row in tasks]
    if not tasks:
        return "Nothing was timed."
    apart = statistics.median(again)
    return f"Random: {statistics.median(over):.3f} of the best; timed again {apart:.2%} apart."


def sooner(answers: Sequence[Mapping[str, Any]]) -> str:
    """Seconds until ours has an answer near the best over those of ``triton.autotune``, by kernel."""
    shares = []
    for kernel in dict.fromkeys(row["kernel"] for row in answers):
        cold = {row["tuner"]: row for row in answers if row["kernel"] == kernel and row["cold"]}
        if stock := cold.pop("triton.autotune", None):
            near = [row["first_s"] for row in cold.values() if row["us"] <= NEAR * row["best_us"]]
            shares.append(min(near, default=math.inf) / stock["first_s"])
    told = ", ".join(f"{each:.3f}" for each in shares)
    return f"Within {NEAR - 1:.0%} of the best after this share of the time of triton.autotune: {told}"


if __name__ == "__main__":
    main()
