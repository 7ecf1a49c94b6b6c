"""How commands show latencies on hypothetical devices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from costmodel.cli._output import print_table, titled_table

if TYPE_CHECKING:
    import pandas as pd


def print_sweep(title: str, table: "pd.DataFrame", names: Sequence[str], ends: str) -> None:
    """A row a device: its quantities, the latency, its interval, and how many times as fast it is.

    Args:
        title: Of the table.
        table: Columns ``names``, ``latency_s``, and ``low_s``, ``high_s`` and ``speedup`` where they are
            known; without the last, speed is over that of the first row.
        names: The quantities that are swept.
        ends: What the interval is called.
    """
    shown = titled_table(title)
    for name in (*names, "latency", *([ends] if "low_s" in table else []), "x"):
        shown.add_column(name, justify="right")
    first = table["latency_s"].iloc[0]
    for row in table.to_dict("records"):
        interval = [f"{row['low_s'] * 1e6:,.1f} - {row['high_s'] * 1e6:,.1f} us"] if "low_s" in table else []
        quantities = [f"{row[name]:g}" for name in names]
        speedup = f"{row.get('speedup', first / row['latency_s']):.2f}"
        shown.add_row(*quantities, f"{row['latency_s'] * 1e6:,.1f} us", *interval, speedup)
    print_table(shown)
