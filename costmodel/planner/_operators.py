"""What the operators of a model take: kernels, time, and rates beside what the device allows."""

from enum import IntEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.planner.graphs._kernel_class import KernelKind
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._kernel_time import find_least_s
from costmodel.records._workload import Workload

OPERATOR_COLUMNS = ("operator", "kind", "kernels", "us", "%", "TFLOP/s", "GB/s", "of the roofline %")


def kernel_rows(graph: KernelGraph) -> pd.DataFrame:
    """Return a row for each kernel, copy and memset of a graph.

    Columns: ``kind`` (of kernels a ``KernelKind``, else copy or memset), ``operator`` and ``workload`` (empty
    where nobody knows), ``kernel`` (its name), ``blocks``, ``sms``, and ``seconds``.
    """
    (tasks,) = np.nonzero(graph.on_device)
    named, kinds = graph.name_ids[tasks], graph.kinds[tasks]
    operators = np.array(graph.operators or [""] * len(graph.names), dtype=object)
    return pd.DataFrame(
        {
            "kind": np.where(kinds == TaskKind.KERNEL, _KERNELS[graph.kernel_kinds[tasks]], _TASKS[kinds]),
            "operator": operators[named],
            "workload": np.array(graph.workloads, dtype=object)[graph.workload_ids[tasks]],
            "kernel": np.array(graph.names, dtype=object)[named],
            "blocks": graph.blocks[tasks],
            "sms": graph.sms[tasks],
            "seconds": graph.durations_s[tasks],
        }
    )


def _words(kinds: type[IntEnum]) -> NDArray[np.object_]:
    return np.array([kind.name.lower().replace("_", " ") for kind in kinds], dtype=object)


_KERNELS, _TASKS = _words(KernelKind), _words(TaskKind)


def operators_or_kinds(rows: pd.DataFrame) -> pd.Series:
    """Return the operator of each row of ``kernel_rows``; where nobody knows it, its kind in brackets."""
    return rows["operator"].where(rows["operator"] != "", "(" + rows["kind"] + ")")


def operator_table(graph: KernelGraph) -> pd.DataFrame:
    """Add up kernels by operator, the longest first; those that no operator is known of, by their kind.

    Columns: ``operator``, ``kind`` (the one that takes most of its time), ``kernels``, ``seconds``, ``share``
    of the time of all kernels, ``known_share`` of the operator's time that is of kernels whose workload is
    known, and of these ``flops_per_s``, ``bytes_per_s`` (the bytes that must be moved at least) and
    ``roofline_share``: the time that the device needs at least, over the time taken. NaN where no workload
    is known, or no device.
    """
    rows = kernel_rows(graph)
    known = {name: Workload.parse(name) for name in set(rows["workload"]) if name}
    flops = {name: workload.flops for name, workload in known.items()}
    moved = {name: workload.min_bytes for name, workload in known.items()}
    is_known = rows["workload"] != ""
    rows = rows.assign(
        operator=operators_or_kinds(rows),
        flops=rows["workload"].map(flops).fillna(0.0),
        bytes=rows["workload"].map(moved).fillna(0.0),
        known_s=rows["seconds"].where(is_known, 0.0),
        least_s=find_least_s(graph)[graph.on_device],
    )
    by_kind = rows.groupby(["operator", "kind"], sort=False)["seconds"].sum().sort_values(ascending=False)
    kinds = by_kind.reset_index().drop_duplicates("operator").set_index("operator")["kind"]
    added = rows.groupby("operator", sort=False)[["seconds", "flops", "bytes", "known_s", "least_s"]].sum()
    known_s = added["known_s"].where(added["known_s"] > 0)
    table = pd.DataFrame(
        {
            "kind": kinds.reindex(added.index),
            "kernels": rows.groupby("operator", sort=False).size(),
            "seconds": added["seconds"],
            "share": added["seconds"] / (added["seconds"].sum() or 1.0),
            "known_share": added["known_s"] / added["seconds"].where(added["seconds"] > 0, 1.0),
            "flops_per_s": added["flops"] / known_s,
            "bytes_per_s": added["bytes"] / known_s,
            "roofline_share": (added["least_s"] / known_s).where(added["least_s"] > 0),
        }
    )
    return table.sort_values("seconds", ascending=False, kind="stable").reset_index()


def shown_operators(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of an operator table as texts, in the order of ``OPERATOR_COLUMNS``."""
    return [
        (
            row["operator"],
            row["kind"],
            f"{row['kernels']:,}",
            f"{1e6 * row['seconds']:,.1f}",
            f"{100 * row['share']:.1f}",
            *(_shown(row[name], factor) for name, factor in _RATES.items()),
        )
        for row in table.to_dict(orient="records")
    ]


_RATES = {"flops_per_s": 1e-12, "bytes_per_s": 1e-9, "roofline_share": 100.0}


def _shown(value: float, factor: float) -> str:
    shown = value * factor
    return "" if np.isnan(value) else f"{shown:,.0f}" if shown >= 1000 else f"{shown:.3g}"
