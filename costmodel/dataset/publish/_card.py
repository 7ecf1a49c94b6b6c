"""The card: what a dataset is, how it was made, what it contains, what it is not suitable for."""

from pathlib import Path

import msgspec

from costmodel.dataset.publish._describe import DatasetDescription
from costmodel.dataset.publish._plots import COVERAGE_PLOT, GAP_PLOT, NOISE_PLOT
from costmodel.dataset.publish._summary import summary_tables
from costmodel.dataset.table._files import SUMS_NAME
from costmodel.dataset.table._schema import FILE_NAME, PARTS_NAME, SCHEMA
from costmodel.files import find_config, write_whole
from costmodel.reading import read_json, read_toml
from costmodel.report._page import TextTable

HEADER_NAME = "card.json"

_TEMPLATE = """\
# {title}

{summary}

- Devices: {devices}
- Measured: {first_day} to {last_day}
- Licence: {licence}
- Files: `{data_file}` (the data), `{sums_file}` (check with `sha256sum -c {sums_file}`)

## How it was measured

{method}

Software:

{software}

## What it holds

{counts}

{workloads}

"Kernels" are the different ones that work wherever they were measured; the outcomes count measurements, A/A
repeats included. "Within 10 % of best" is the share of the working kernels of a task (a workload on a
platform) that are that fast, median over the platforms; "log10 worst/best" is the widest on any platform.

## Coverage and flatness

Candidates of a workload are known if any platform here measured them. The table shows how many of them each
platform measured, over the workloads that it has, and the share of a task's working kernels that is within
10 % of the best: median, least and most of these workloads. Where it is large, a random choice is good.

![Coverage]({coverage_plot})

{coverage}

## Budget gap

What it costs to run the kernel that is fastest with the most SMs on fewer of them: its latency / the latency
of the best kernel for that number of SMs, minus 1. The mean over workloads is geometric.

![Budget gap]({gap_plot})

{platforms}

{gap}

## Noise

![Noise]({noise_plot})

{noise}

An A/A visit measures the same kernel on the same platform again, later. The latency of a measurement is the
median of its repeats.

## Similarity of devices

{pairs}

Over the tasks (a workload on a part of a device) that both measured: the median of Spearman's rank
correlation of latencies, and of how far these are from a constant factor. Near-twins count as one device
where devices are held out.

## Columns

{columns}

## Read it

```python
import costmodel
dataset = costmodel.load_dataset(".")  # or pandas.read_parquet("{data_file}")
```

## Known limits

{limits}

## Citation

{citation}
"""


class CardHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Description of a dataset that only its author can give. Each text is Markdown.

    Attributes:
        title: Name of the dataset.
        summary: What the dataset contains and what it is for.
        method: How the measurements were made.
        limits: What the dataset is not suitable for.
        licence: Terms of use, such as ``CC-BY-4.0``.
        citation: How to cite the dataset.
    """

    title: str
    summary: str
    method: str
    limits: str
    licence: str
    citation: str


def read_card_header(path: Path) -> CardHeader:
    """Read the author's part of a card from a TOML file with the keys of ``CardHeader``.

    Raises:
        CostModelError: If the file is missing, is not TOML, or has other keys.
    """
    keys = ", ".join(CardHeader.__struct_fields__)
    return read_toml(find_config(path), CardHeader, f"a card in TOML with the texts {keys}")


def write_held_header(header: CardHeader, folder: Path) -> None:
    """Keep the author's part of a card in the dataset's folder, so that the card can be made again."""
    write_whole(folder / HEADER_NAME, msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")


def read_held_header(folder: Path) -> CardHeader:
    """Return the author's part of the card of a dataset in parts.

    Raises:
        CostModelError: It is not in its folder, or damaged.
    """
    return read_json(folder / HEADER_NAME, CardHeader, "the texts of a dataset's card")


def render_card(header: CardHeader, description: DatasetDescription, *, in_parts: bool = False) -> str:
    """Return the card in Markdown.

    Args:
        header: The author's part.
        description: What the dataset holds.
        in_parts: Whether the measurements lie in a folder of parts.
    """
    counts, workloads, platforms, noise, coverage, pairs, *gaps = summary_tables(description)
    software = "\n".join(f"- {name}: {versions}" for name, versions in description.software.items())
    return _TEMPLATE.format(
        **{name: text.strip() for name, text in msgspec.structs.asdict(header).items()},
        devices=", ".join(description.devices),
        first_day=description.measured_from,
        last_day=description.measured_to,
        software=software or "- not recorded",
        counts=counts.to_markdown(),
        workloads=workloads.to_markdown(),
        platforms=platforms.to_markdown(),
        noise=noise.to_markdown(),
        coverage=coverage.to_markdown(),
        pairs=pairs.to_markdown() if pairs.rows else "No two devices share tasks.",
        gap="\n\n".join(f"### {gap.title}\n\n{gap.to_markdown()}" for gap in gaps),
        columns=_columns(),
        data_file=PARTS_NAME if in_parts else FILE_NAME,
        sums_file=SUMS_NAME,
        gap_plot=GAP_PLOT,
        noise_plot=NOISE_PLOT,
        coverage_plot=COVERAGE_PLOT,
    )


def _columns() -> str:
    rows = tuple(
        (
            f"`{column.name}`",
            column.metadata[b"unit"].decode() or "-",
            column.metadata[b"description"].decode(),
        )
        for column in SCHEMA
    )
    return TextTable("Columns", ("column", "unit", "meaning"), rows).to_markdown(is_text=True)
