"""What Holistic Trace Analysis says of recorded ranks, beside `costmodel plan FOLDER`: see README.md.

Runs in an environment of its own: `pip install HolisticTraceAnalysis 'pandas<3'`.
"""

import argparse
import contextlib
import io
import logging
import warnings
from pathlib import Path


def main() -> None:
    """Print a row for each folder of traces: milliseconds, added up over its ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="folders with a trace of each rank")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    print("| traces | busy, ms | collectives alone, ms | critical path of rank 0, ms | of it kernels, ms |")
    for folder in parser.parse_args().folder:
        with contextlib.redirect_stderr(io.StringIO()):
            print(row(folder))


def row(folder: Path) -> str:
    """A row of a table."""
    from hta.trace_analysis import TraceAnalysis

    files = {rank: str(file) for rank, file in enumerate(sorted(folder.glob("*.json")))}
    analysis = TraceAnalysis(trace_files=files, trace_dir=str(folder))
    kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False)
    busy = kinds["sum"].sum() / 1e3
    alone = kinds.loc[kinds["kernel_type"] == "COMMUNICATION", "sum"].sum() / 1e3
    graph, _ = analysis.critical_path_analysis(rank=0, annotation="iteration", instance_id=0)
    path = graph.get_critical_path_breakdown()
    of_kernels = path.loc[path["bound_by"].str.startswith("gpu_compute"), "duration"].sum() / 1e3
    total = path["duration"].sum() / 1e3
    return f"| {'/'.join(folder.parts[-3:])} | {busy:.2f} | {alone:.2f} | {total:.2f} | {of_kernels:.2f} |"


if __name__ == "__main__":
    main()
