"""Pack what ``collect.py`` wrote into the tables that the repository holds."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset.table._files import write_checksums

_SHAPE = ["family", "m", "n", "k", "batch", "dtype", "layout", "epilogue", "sms"]
_KERNEL = [
    "backend",
    "kind",
    "block_m",
    "block_n",
    "block_k",
    "stages",
    "warps",
    "group_m",
    "splits",
    "per_sm",
]
_LIBRARY = ["position", *(f"lt_{name}" for name in ("id", "tile", "stages", "splits", "custom", "cluster"))]
_MADE = ["regime", "visit", "outcome", "one_run"]
_HALF = 1 << 12  # a half of what is rounded away: at most 1 part in 2,048, less than two visits differ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, nargs="+", help="tables of one device")
    parser.add_argument("--out", type=Path, required=True, help="folder of the dataset")
    parser.add_argument("--name", required=True, help="of the table, such as h100")
    options = parser.parse_args()
    tables = [pq.read_table(path) for path in options.measured]
    facts = tables[0].schema.metadata
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    options.out.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pack(frame).replace_schema_metadata({k: v for k, v in facts.items() if k != b"pandas"}),
        options.out / f"{options.name}.parquet",
        compression="zstd",
        compression_level=22,
        use_dictionary=[*_SHAPE, *_KERNEL, *_LIBRARY, *_MADE],
        column_encoding={"seconds": "BYTE_STREAM_SPLIT"},
        row_group_size=1 << 20,
    )
    write_checksums(
        options.out, sorted(path.name for path in options.out.iterdir() if path.name != "SHA256SUMS")
    )
    print(f"{len(frame)} rows, {(options.out / f'{options.name}.parquet').stat().st_size / 1e6:.2f} MB")


def pack(frame: pd.DataFrame) -> pa.Table:
    """Sort rows, round seconds, and keep what tells something."""
    frame = frame[frame.sms > 0].drop_duplicates([*_SHAPE, *_KERNEL, *_LIBRARY[:1], "regime", "visit"])
    frame = frame.assign(one_run=frame.runs == 1)
    columns = [*_SHAPE, *_KERNEL, *_LIBRARY, *_MADE]
    texts = ["family", "dtype", "layout", "epilogue", "backend", "kind", "regime", "outcome"]
    for name in columns:
        frame[name] = (
            frame[name].astype(object).fillna("") if name in texts else frame[name].fillna(0).astype("int32")
        )
    frame = frame.sort_values(columns, kind="stable")
    table = {name: pa.array(frame[name].to_numpy()) for name in columns}
    bits = frame.seconds.to_numpy(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(_HALF)) & ~np.uint32(2 * _HALF - 1)
    return pa.table({**table, "seconds": pa.array(rounded.view(np.float32))})


if __name__ == "__main__":
    main()
