"""Whether the SMs of two processes are apart, by the time that kernels take.

Under MPS each process numbers its SMs from 0, so that ids do not tell. Here a process fills a part of the
device with blocks that spin, as many as its SMs hold, and another times as many on the SMs that a service
has: they take as long as alone only where none of these is filled.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np

from costmodel.collector import GreenContexts
from costmodel.collector.device._spin_kernel import SpinKernel

BLOCKS_PER_SM = 32  # of one warp: what an SM of sm_90 holds
SPIN_CYCLES = 2_000_000  # 1 ms at 2 GHz
FILL_CYCLES = 10 * SPIN_CYCLES
RUNS = 20
FILLED_S = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sms", type=int, required=True, help="of the part; a service has the rest")
    parser.add_argument("--fill", choices=("part", "rest"), help="only fill these SMs for a while")
    args = parser.parse_args()
    if args.fill:
        fill(args.sms, args.fill)
    else:
        print(json.dumps(times(args.sms)))


def times(sms: int) -> dict[str, Any]:
    """Milliseconds of a kernel on a service's SMs: alone, beside a filled part, and on filled SMs."""
    launch, sm_ids = opened(sms, "rest")
    found: dict[str, Any] = {"service_sms": len(sm_ids), "alone_ms": timed(launch)}
    for where in ("part", "rest"):
        command = [sys.executable, __file__, "--sms", str(sms), "--fill", where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as filling:
            assert filling.stdout
            found[f"{where}_sm_ids"] = json.loads(filling.stdout.readline())
            time.sleep(0.1)
            found[f"{where}_filled_ms"] = timed(launch)
            found[f"{where}_filled_all_the_time"] = filling.poll() is None
    return found | {"alone_again_ms": timed(launch)}


def opened(sms: int, where: str) -> tuple[Any, list[int]]:
    """What fills these SMs with blocks that spin, without waiting or with; and their ids."""
    contexts = GreenContexts()
    handle = contexts.rest(sms)[0] if where == "rest" else contexts.streams(sms)[0][0]
    spin = SpinKernel(contexts.driver, contexts.call)
    ids = sorted(spin.sm_ids(handle))

    def launch(cycles: int, *, wait: bool) -> None:
        spin.launch(handle, cycles, blocks=BLOCKS_PER_SM * len(ids))
        if wait:
            contexts.call(contexts.driver.cuStreamSynchronize(handle))

    return launch, ids


def timed(launch: Any) -> list[float]:
    """Milliseconds of each run; at most as many as end in half a second."""
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < RUNS and time.perf_counter() < begin + 0.5:
        start = time.perf_counter()
        launch(SPIN_CYCLES, wait=True)
        found.append(round(1e3 * (time.perf_counter() - start), 4))
    return found


def fill(sms: int, where: str) -> None:
    """Keep SMs filled for a while; the next blocks wait when the last ones end."""
    launch, sm_ids = opened(sms, where)
    launch(FILL_CYCLES, wait=False)
    print(json.dumps(sm_ids), flush=True)
    end = time.monotonic() + FILLED_S
    while time.monotonic() < end:
        for _ in range(10):
            launch(FILL_CYCLES, wait=False)
        launch(FILL_CYCLES, wait=True)


def apart_line(found: dict[str, Any]) -> str:
    """What was found, in a sentence."""
    alone, part, rest = (np.median(found[k]) for k in ("alone_ms", "part_filled_ms", "rest_filled_ms"))
    return (
        f"SMs: {found['service_sms']} of the service, {len(found['part_sm_ids'])} of the kernels. What fills "
        f"the service's takes {alone:.3f} ms, {part:.3f} ms while another process fills those of the "
        f"kernels, {rest:.3f} ms while that fills its own.\n"
    )


if __name__ == "__main__":
    main()
