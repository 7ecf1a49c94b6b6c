"""Build a dataset of Kernel Tuner's cache files, and count what is in them."""

import argparse
import json
from pathlib import Path

from costmodel.dataset import CardHeader, build_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("caches", type=Path, help="folder with <suite>/<kernel>/*.json.gz")
    parser.add_argument("--out", type=Path, required=True, help="folder of the dataset")
    parser.add_argument("--json", type=Path, required=True, help="where to write the counts")
    options = parser.parse_args()
    header = CardHeader(
        "Kernel Tuner", "To reproduce figures.", "See its DOI.", "None.", "MIT", "10.5281/zenodo.15364124"
    )
    files = sorted(options.caches.glob("*/*/*.json.gz"))
    report = build_dataset(files, options.out, header=header, force=True)
    print(report)
    counts = {"files": len(files), "entries": report.records, "rejected": sum(report.rejects.values())}
    options.json.write_text(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
