"""What networks are worth whose kernels were chosen for the SMs that they get: see README.md here."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from options import parse_options
from ways import AGAIN, DEFAULT, EAGER, OURS, PART, PRODUCTS, UNTIMED, WHOLE


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    from judged import JUDGED, judge  # loads torch

    if args.network:
        judge(args.network, args)
        return
    end = time.monotonic() + args.seconds
    shard, shards = map(int, args.shard.split("/"))
    for name in list(args.only or JUDGED)[shard::shards]:
        left = end - time.monotonic()
        if left > 0:
            run_alone(name, args, min(left, args.slowest))
    print(table(read(args.out)))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for results: a JSON file for each network")
    parser.add_argument("--seconds", type=float, help="time limit; networks that are left are not judged")
    parser.add_argument(
        "--slowest", type=float, help="s after which a network is ended; what was found stays"
    )
    parser.add_argument("--shard", metavar="I/N", help="every N-th network")
    parser.add_argument("--only", action="append", metavar="NETWORK", help="again for more")
    parser.add_argument("--sms", nargs="+", type=int, help="parts to judge on; the last is the whole GPU")
    parser.add_argument("--keep", type=int, help="candidates that ours times")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="a CPU for a rehearsal")
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--shipped", action="store_true", help="add compile times of PyTorch as shipped")
    args = parse_options(parser, __file__, argv)
    args.out = args.out or Path("out/inductor_budgets")
    return args


def run_alone(name: str, args: argparse.Namespace, seconds: float) -> None:
    """Judge a network in a process of its own, which is ended after some time.

    Unless all is to be as shipped, this process and PyTorch's compile workers have one assembler. In the
    wheel of PyTorch 2.11 they have not, so that each kernel is compiled twice.
    """
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    if not args.shipped:
        environment |= shared_assembler()
    given = ["--out", str(args.out), "--device", args.device, "--keep", str(args.keep)]
    command = [sys.executable, __file__, *given, "--network", name, "--sms", *map(str, args.sms)]
    command += ["--shipped"] * args.shipped
    with (args.out / f"{name}.log").open("ab") as log:
        try:
            subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name}: ended after {seconds:.0f} s", flush=True)


def shared_assembler() -> dict[str, str]:
    """Settings that let every process take the ptxas of PyTorch's wheel, if it holds one."""
    import torch

    held = Path(torch.__file__).parent / "bin" / "ptxas"
    return {"TRITON_PTXAS_PATH": str(held)} if held.exists() else {}


def read(out: Path) -> list[dict[str, Any]]:
    """Return what was found of each network."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("*.json"))]


def table(networks: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: microseconds of each network on each part, in each way; then ratios over networks."""
    ways = (EAGER, DEFAULT, WHOLE, PART, OURS, PRODUCTS, UNTIMED)
    lines = [f"| network | SMs | {' | '.join(ways)} | A/A |", "| --- |" + " ---: |" * (len(ways) + 2)]
    ratios: dict[str, list[float]] = {}
    for found in networks:
        for sms, latency_s in found["latency_s"].items():
            times = {way: latency_s[way] for way in ways if way in latency_s}
            shown = [f"{times[way] * 1e6:.1f}" if way in times else "" for way in ways]
            again = f"{latency_s[AGAIN] / latency_s[OURS] - 1:+.1%}" if AGAIN in latency_s else ""
            lines.append(f"| {found['network']} | {sms} | {' | '.join(shown)} | {again} |")
            for ours in (OURS, PRODUCTS, UNTIMED):
                for way in (WHOLE, PART):
                    if ours in times and way in times:
                        ratios.setdefault(f"{way} / {ours}, {sms} SMs", []).append(times[way] / times[ours])
        for ours in (OURS, PRODUCTS, UNTIMED):
            compile_s = found["compile_s"]
            if ours in compile_s and WHOLE in compile_s:  # the first of each, which found nothing compiled
                seconds = next(iter(compile_s[ours].values())) / next(iter(compile_s[WHOLE].values()))
                ratios.setdefault(f"compile time: {ours} / {WHOLE}", []).append(seconds)
    lines += [""] + [
        f"{name}: {geometric_mean(each):.2f} (least {min(each):.2f}, n={len(each)})"
        for name, each in sorted(ratios.items())
    ]
    failed = [f"{each['network']}, {way}: {why}" for each in networks for way, why in each["failed"].items()]
    return "\n".join([*lines, *failed])


if __name__ == "__main__":
    main()
