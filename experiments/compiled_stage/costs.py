"""What each stage costs: seconds of one core to screen, read machine code and choose. See README.md here."""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.kernels import open_space
from costmodel.kernels._machine_code import MachineCode, machine_code
from costmodel.kernels.metaschedule._source import MetaSchedule, compile_cubin
from costmodel.records import Candidate, Workload, find_device
from costmodel.records._platform import part_of
from costmodel.search import KernelSpace, ModelSampler
from costmodel.transfer import load_model

WORKLOADS = ("conv2d-n1-c256-h14-w14-o256-k3-s1", "matmul-m512-n1024-k1024", "softmax-m1200-n333")
DEVICE, SMS = "NVIDIA H100 80GB HBM3", 32
SCREENED, COMPILED = 50_000, 8


def main(argv: Sequence[str] | None = None) -> None:
    """Print the costs of each workload, and the sizes of the models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, help="folder of the models that `costmodel train` makes")
    folder = parser.parse_args(argv).models
    files = [folder / f"{name}.costmodel" for name in ("sm-budgets", "sm-budgets-compiled")]
    decided = load_model(files[0]).model
    MetaSchedule().prepare("cuda", "sm_90")
    for name in WORKLOADS:
        space = KernelSpace(open_space(Workload.parse(name), "cuda"), part_of(find_device(DEVICE), SMS))
        drawn_s, drawn = timed(lambda space=space: space.draw(SCREENED, np.random.default_rng(0)))
        scored_s, _ = timed(lambda drawn=drawn: decided.predict(drawn.features[:, 0]))
        shortlist = ModelSampler(space, decided).shortlist(COMPILED)
        read_s, _ = timed(
            lambda some=shortlist: [machine_code(compile_cubin(each, "sm_90")) for each in some]
        )
        print(
            f"{name}: {len(drawn) / drawn_s:,.0f} configs a second drawn with their features, "
            f"{len(drawn) / scored_s:,.0f} scored, {len(drawn) / (drawn_s + scored_s):,.0f} both; "
            f"{read_s / len(shortlist):.2f} s a kernel compiled and counted",
            flush=True,
        )
    sizes = ", ".join(f"{file.stem} {file.stat().st_size / 1e6:.1f} MB" for file in files)
    print(sizes)


def count(candidate: Candidate) -> MachineCode | None:
    """Compile a kernel by NVRTC, and count what is in it."""
    return machine_code(compile_cubin(candidate, "sm_90"))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this process's cores, and what came of it; the first of two calls pays for what is kept."""
    work()
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


if __name__ == "__main__":
    main()
