"""Live search on a GPU against TVM's stock tuner, whole and on a part of it: see README.md here."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from report import draw, table
from searches import OURS, SEARCHES, STOCK, STOCK_BUILT, Case, search
from side_by_side import latencies_of_improvements

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

WORKLOADS = (
    "matmul_bias_gelu-m128-n3072-k768",
    "conv2d-n1-c256-h14-w14-o256-k3-s1",
    "matmul_bias-m512-n1024-k1024-float16",
    "batch_matmul-b12-m512-n512-k64",
)


# Seconds that each step takes at most: none is started that would outlast the time limit.
LONGEST_S = {OURS: 120.0, STOCK: 275.0, STOCK_BUILT: 260.0}
JUDGING_S = 30.0
JUDGED = "side by side"


def main() -> None:
    """Search, as many at once as there are devices, then compare; goes on where a run was cut."""
    # TVM's worker processes import ``stock_part`` from here.
    here, others = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{here}:{others}" if others else here
    args = parse()
    end = time.monotonic() + args.time_limit
    threads = max(1, len(os.sched_getaffinity(0)) // args.devices)
    model = str(args.model.resolve())
    cases = [
        Case(workload, sms, args.runner, args.trials, threads, model)
        for sms, workload in product(args.sms or (32, 0), args.workload or WORKLOADS)
    ]
    devices: SimpleQueue[int] = SimpleQueue()
    for position in range(args.devices):
        devices.put(position)
    with ThreadPoolExecutor(args.devices) as pool:
        for name in args.search or (OURS, STOCK, STOCK_BUILT):
            latest = end - LONGEST_S[name] - (JUDGING_S * len(cases)) / args.devices
            for case in cases:
                pool.submit(
                    keep, args.out, case, name, partial(on_free_device, devices, search, name, case), latest
                )
    with ThreadPoolExecutor(args.devices) as pool:
        for case in cases:
            pool.submit(judge, args.out, case, devices, end - JUDGING_S)
    rows = [row for case in cases if (row := judged(args.out, case))]
    args.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    if args.plot and rows:
        draw(rows, args.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="what was compared")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="finished searches")
    parser.add_argument("--model", type=Path, required=True, help="file that has not seen the workloads")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--workload", action="append", help="name; again for more (default: four)")
    parser.add_argument("--sms", type=int, action="append", help="0: all; again for more (default: 32, 0)")
    parser.add_argument("--search", action="append", choices=SEARCHES, help="again for more (default: all)")
    parser.add_argument("--trials", type=int, help="of each search")
    parser.add_argument("--devices", type=int, help="GPUs, each of which takes a search")
    parser.add_argument("--time-limit", type=float, help="s after which nothing starts")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG of the best kernel over time")
    return parse_options(parser, __file__, argv)


def file_of(folder: Path, case: Case, step: str) -> Path:
    return folder / f"{case.workload}-{case.sms or 'all'}" / f"{step.replace(', ', '-')}.json"


def keep(folder: Path, case: Case, step: str, work: Callable[[], Any], latest: float) -> None:
    """Do a step of a case and write what comes of it, unless it was done or there is no time for it."""
    file = file_of(folder, case, step)
    if file.exists() or time.monotonic() > latest:
        return
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 (the other steps go on)
        say(f"{case.workload} on {case.sms or 'all'} SMs: {step}: {type(error).__name__}: {error}")
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result))
    say(f"{case.workload} on {case.sms or 'all'} SMs: {step}: done, {result.get('seconds', 0):.0f} s")


def on_free_device(devices: "SimpleQueue[int]", function: Any, *arguments: Any) -> Any:
    """Call a function in a process that sees the next free device."""
    device = devices.get()
    try:
        return in_process(device, function, *arguments)
    finally:
        devices.put(device)


def judge(folder: Path, case: Case, devices: "SimpleQueue[int]", latest: float) -> None:
    """Measure side by side what the searches of a case found, as far as there are any."""
    files = {name: file_of(folder, case, name) for name in SEARCHES}
    found = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    old = file_of(folder, case, JUDGED)
    if old.exists() and json.loads(old.read_text()).keys() < found.keys():
        old.unlink()
    if STOCK in found and OURS in found:
        work = partial(on_free_device, devices, latencies_of_improvements, case, found)
        keep(folder, case, JUDGED, work, latest)


def judged(folder: Path, case: Case) -> dict[str, Any] | None:
    """A case that was compared; None where it was not."""
    file = file_of(folder, case, JUDGED)
    if not file.exists():
        return None
    row = {"workload": case.workload, "sms": case.sms, "trials": case.trials}
    return row | {"searches": json.loads(file.read_text())}


def in_process(device: int, function: Any, *arguments: Any) -> Any:
    """Call a function in a new process that sees one of the devices that this one may use."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=answer, args=(sender, device, function, arguments))
    process.start()
    sender.close()
    try:
        error, result = receiver.recv()
    except EOFError:
        raise RuntimeError("the process died") from None
    finally:
        process.join()
    if error:
        raise RuntimeError(error)
    return result


def answer(sender: Any, device: int, function: Any, arguments: tuple[Any, ...]) -> None:
    """Send what the function gives, and end without waiting for the pools of stock, which may not end."""
    see_device(device)
    try:
        sender.send((None, function(*arguments)))
    except Exception as error:  # noqa: BLE001 (the other process raises it)
        sender.send((f"{type(error).__name__}: {error}", None))
    sender.close()
    os._exit(0)


def see_device(position: int) -> None:
    """Let this process see one of the GPUs that it may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[position] if visible else str(position)


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
