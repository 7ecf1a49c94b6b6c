"""Processor seconds of building kernels for an H100 on this machine, without a GPU: see README.md here."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from costmodel.collector._builders import start_build_workers
from costmodel.kernels import sample_candidates
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Workload

sys.path.append(str(Path(__file__).parents[1]))
from pipeline_throughput.run import SIDE_BY_SIDE
from pipeline_throughput.run import parse as parse_pipeline
from stopwatch import BUILD, noted_s, timed

ARCHITECTURE = "sm_90"


def main() -> None:
    """Build the kernels of experiments/pipeline_throughput one after the other."""
    args = parse()
    pipeline = parse_pipeline(["--json", str(args.json)])
    source = MetaSchedule()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with start_build_workers([source], "cuda", ARCHITECTURE, 1, folder) as engine:
            for workload in map(Workload.parse, pipeline.workload):
                for seed in range(pipeline.kernels // SIDE_BY_SIDE):
                    drawn = engine.submit(sample_candidates, workload, "cuda", SIDE_BY_SIDE, seed).result()
                    for candidate in drawn:
                        build = partial(timed, folder, BUILD, 1, source.build)
                        engine.submit(build, candidate, "cuda", ARCHITECTURE, folder).result()
                    print(f"{workload}: {len(noted_s(folder, BUILD))} built", file=sys.stderr, flush=True)
        args.json.write_text(json.dumps({"build_s": noted_s(folder, BUILD, on_processor=True)}) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the seconds go")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
