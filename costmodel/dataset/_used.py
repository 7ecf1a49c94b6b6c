"""Description of a dataset in a tracked run."""

from typing import Any

import pyarrow as pa

from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.dataset.table._schema import schema_of
from costmodel.records._measurement import Outcome
from costmodel.tracking._items import DatasetUsed


def describe_used_dataset(dataset: DatasetLike, context: str) -> DatasetUsed:
    """Return name, hash, columns and counts of a dataset.

    Args:
        dataset: Dataset, or its name or path.
        context: What the dataset was used for, such as ``training``.

    Raises:
        CostModelError: If it is not a dataset, see ``load_dataset``.
    """
    used = load_dataset(dataset)
    return DatasetUsed(
        name=used.name,
        sha256=used.sha256,
        source=used.file.path if used.file else None,
        schema={field.name: _kind(field.type) for field in schema_of(used.columns.table)},
        profile={
            # MLflow's pages show the first by this name.
            "num_rows": len(used.measurements),
            "failed": int((used.measurements["outcome"] != Outcome.OK).sum()),
            "workloads": len(used.workloads),
            "candidates": len(used.candidates),
            "platforms": len(used.platforms),
        },
        context=context,
    )


def _kind(kind: Any) -> Any:
    """Return a column's type as schemas of MLflow have it."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nested(kind.value_type)}
    if pa.types.is_struct(kind):
        properties = {field.name: {**_nested(field.type), "required": True} for field in kind}
        return {"type": "object", "properties": properties}
    return {pa.string(): "string", pa.int64(): "long", pa.float64(): "double"}[kind]


def _nested(kind: Any) -> dict[str, Any]:
    found = _kind(kind)
    return {"type": found} if isinstance(found, str) else found
