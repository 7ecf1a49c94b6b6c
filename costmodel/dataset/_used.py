"""A dataset as a tracked run names it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from costmodel.dataset.table import SCHEMA, open_parquet, parquet_file, sha256_of
from costmodel.tracking import DatasetUsed

_COUNTED = {"workloads": "workload", "candidates": "candidate_id", "platforms": "platform_id"}


def dataset_used(path: Path, context: str) -> DatasetUsed:
    """Name, hash, columns and counts of a dataset.

    Args:
        path: Its folder, or its parquet file.
        context: What it was used for, such as ``training``.

    Raises:
        CostModelError: It is no dataset, see ``load_dataset``.
    """
    file = parquet_file(path)
    with open_parquet(path) as opened:
        table = opened.read([*_COUNTED.values(), "outcome"])
    counts = {what: len(table[column].unique()) for what, column in _COUNTED.items()}
    failed = pc.sum(pc.not_equal(table["outcome"], "ok")).as_py()
    return DatasetUsed(
        name=file.resolve().parent.name,
        sha256=sha256_of(file),
        source=file,
        schema={field.name: _kind(field.type) for field in SCHEMA},
        # MLflow's pages show the first by this name.
        profile={"num_rows": len(table), "failed": failed, **counts},
        context=context,
    )


def _kind(kind: Any) -> Any:
    """A column's type as schemas of MLflow have it."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nested(kind.value_type)}
    if pa.types.is_struct(kind):
        properties = {field.name: {**_nested(field.type), "required": True} for field in kind}
        return {"type": "object", "properties": properties}
    return {pa.string(): "string", pa.int64(): "long", pa.float64(): "double"}[kind]


def _nested(kind: Any) -> dict[str, Any]:
    found = _kind(kind)
    return {"type": found} if isinstance(found, str) else found
