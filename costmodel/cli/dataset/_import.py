"""``costmodel dataset import``: a dataset of measurements that an installed package of others holds."""

from typing import Annotated

import typer

from costmodel.cli._options import JsonOption, number_option
from costmodel.cli._output import write_json
from costmodel.cli.dataset._arguments import print_report
from costmodel.cli.dataset._build import CardOption, OutOption
from costmodel.errors import CostModelError
from costmodel.report._progress import track

_PACKAGES = ("aiconfigurator",)


def import_tables(
    package: Annotated[
        str, typer.Argument(metavar="PACKAGE", help=f"Whose measurements: {', '.join(_PACKAGES)}.")
    ],
    out: OutOption,
    card: CardOption,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Table to read: gemm, context_attention, generation_attention, moe or "
            "scale_matrix. Default: all of them.",
            show_default=False,
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="GPU as the package names it, such as h100_sxm. Default: all.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        float,
        number_option(
            "above 0 and at most 1",
            lambda share: 0 < share <= 1,
            metavar="SHARE",
            help="Share of the shapes to read, the same ones on every GPU: a table has up to 36,000.",
        ),
    ] = 0.01,
    json: JsonOption = None,
) -> None:
    """Make a dataset of measurements that an installed package holds.

    `aiconfigurator`: latencies of library calls that serve language models, on ten GPUs (`pip install
    --no-deps aiconfigurator-core==0.12.0`, 82 MB). Rows that its authors list as wrong, or rows like these,
    go to `rejects.jsonl` with the reason.

    Examples:
    - `costmodel dataset import aiconfigurator --table gemm --out out/gemm --card card.toml`
    """
    from costmodel.dataset._build import build_dataset
    from costmodel.dataset.importers._aiconfigurator import find_tables
    from costmodel.dataset.publish._card import read_card_header
    from costmodel.dataset.sources._base import ReadOptions

    if package not in _PACKAGES:
        raise CostModelError(f"PACKAGE must be one of {', '.join(_PACKAGES)}, but got {package!r}.")
    report = build_dataset(
        find_tables(table or (), gpu or ()),
        out,
        header=read_card_header(card),
        options=ReadOptions(share=share),
        track=track,
    )
    print_report(report)
    write_json(json, report)
