"""What networks are worth whose kernels were chosen for the SMs that they get: see README.md here."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from kit.results import markdown_table
from options import parse_options
from ways import AGAIN, DEFAULT, EAGER, LISTS, OURS, PART, UNTIMED, WHOLE


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
    """Markdown: microseconds of each network on each part, in each way; then what failed."""
    ways = (EAGER, DEFAULT, WHOLE, PART, OURS, LISTS, UNTIMED)
    rows = []
    for found in networks:
        for sms, latency_s in found["latency_s"].items():
            shown = [f"{latency_s[way] * 1e6:.1f}" if way in latency_s else "" for way in ways]
            again = f"{latency_s[AGAIN] / latency_s[LISTS] - 1:+.1%}" if AGAIN in latency_s else ""
            rows.append([found["network"], sms, *shown, again])
    failed = [f"{each['network']}, {way}: {why}" for each in networks for way, why in each["failed"].items()]
    return "\n".join([markdown_table(["network", "SMs", *ways, "A/A"], rows), *failed])


if __name__ == "__main__":
    main()
