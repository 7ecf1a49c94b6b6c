"""Live search on a GPU against TVM's stock tuner, whole and on a part of it: see README.md here."""

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from report import draw, table
from searches import SEARCHES, Case, search
from side_by_side import latencies_of_improvements

WORKLOADS = (
    "matmul_bias_gelu-m128-n3072-k768",
    "conv2d-n1-c256-h14-w14-o256-k3-s1",
    "matmul_bias-m512-n1024-k1024-float16",
    "batch_matmul-b12-m512-n512-k64",
)


def main() -> None:
    """Search case after case, as many at once as there are devices; go on where a run was cut."""
    # TVM's worker processes import ``stock_part`` from here.
    here, others = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{here}:{others}" if others else here
    args = arguments()
    rows = json.loads(args.json.read_text()) if args.json.exists() else []
    known = {(row["workload"], row["sms"]) for row in rows if "error" not in row}
    rows = [row for row in rows if (row["workload"], row["sms"]) in known]
    end = time.monotonic() + args.time_limit
    threads = max(1, len(os.sched_getaffinity(0)) // args.devices)
    cases = [
        Case(workload, sms, args.runner, args.trials, threads, str(args.model.resolve()), end)
        for workload, sms in product(args.workload or WORKLOADS, args.sms or (32, None))
        if (workload, sms) not in known
    ]
    devices: SimpleQueue[int] = SimpleQueue()
    for position in range(args.devices):
        devices.put(position)
    with ThreadPoolExecutor(args.devices) as pool:
        for future in as_completed([pool.submit(run_apart, case, devices) for case in cases]):
            rows.append(future.result())
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
            say(f"{rows[-1]['workload']} on {rows[-1]['sms']} SMs: {rows[-1].get('error', 'done')}")
    print(table(rows))
    if args.plot:
        draw(rows, args.plot)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="results; goes on with it")
    parser.add_argument(
        "--model", type=Path, required=True, help="model file that has not seen the workloads"
    )
    parser.add_argument("--runner", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--workload", action="append", help="name; again for more (default: four)")
    parser.add_argument("--sms", type=int, action="append", help="again for more (default: 32 and the whole)")
    parser.add_argument("--trials", type=int, default=128, help="of each search")
    parser.add_argument("--devices", type=int, default=1, help="GPUs, each of which takes a case")
    parser.add_argument("--time-limit", type=float, default=1500.0, help="s after which no search starts")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG of the best kernel over time")
    return parser.parse_args()


def run_apart(case: Case, devices: "SimpleQueue[int]") -> dict[str, Any]:
    """Run a case with processes that see one free device: what goes wrong costs one case."""
    row: dict[str, Any] = {"workload": case.workload, "sms": case.sms, "trials": case.trials}
    device = devices.get()
    try:
        searches = {name: in_process(device, search, name, case) for name in SEARCHES}
        row["searches"] = in_process(device, latencies_of_improvements, case, searches)
    except Exception as error:  # noqa: BLE001 (the other cases go on)
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        devices.put(device)
    return row


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
