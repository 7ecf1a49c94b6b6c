"""``costmodel serve-tables``: configs of the kernels that serve a language model, as frameworks read them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from costmodel.cli._options import (
    MACHINES,
    OUTPUT,
    TABLES,
    CommandGroup,
    JsonOption,
    count_option,
    output_option,
    said,
)
from costmodel.cli._output import print_line, print_table, write_json
from costmodel.report._page import TextTable

app = CommandGroup()
_SHOWN = 20
_VARIABLES = {"vllm": "VLLM_TUNED_CONFIG_FOLDER", "sglang": "SGLANG_MOE_CONFIG_DIR"}
_PACKAGES = {
    "vllm": "vllm/model_executor/layers/quantization/utils/configs",
    "sglang": "sglang/kernels/ops/gemm/configs",
}


@app.callback(invoke_without_command=True)
def serve_tables(
    context: typer.Context,
    *,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The model's `config.json`, or the folder with it.",
            show_default=False,
            rich_help_panel=TABLES,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The GPU, as `costmodel devices list` calls it.",
            show_default=False,
            rich_help_panel=MACHINES,
        ),
    ] = None,
    sms: Annotated[
        int | None,
        count_option(
            help="Number of SMs that kernels will have there. Default: all.",
            show_default=False,
            rich_help_panel=MACHINES,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        output_option(
            metavar="DIR",
            help="Folder for the tables and their manifest. Those written there before are deleted.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="What reads the tables: `vllm` or `sglang`.",
            rich_help_panel=TABLES,
        ),
    ] = "vllm",
    triton: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="Version of Triton beside the framework. SGLang looks for tables of its own version.",
            show_default=False,
            rich_help_panel=TABLES,
        ),
    ] = "",
    tensor_parallel: Annotated[
        int,
        count_option(
            help="Number of GPUs that share each expert and each product.", rich_help_panel=MACHINES
        ),
    ] = 1,
    expert_parallel: Annotated[
        int, count_option(help="Number of GPUs that share the experts out.", rich_help_panel=MACHINES)
    ] = 1,
    timings: Annotated[
        int | None,
        count_option(
            least=2,
            help="Time so many configs of each row on the first GPU of this machine, which must be that of "
            "`--device`: the default, and those expected to be the fastest. Default: none.",
            show_default=False,
            rich_help_panel=MACHINES,
        ),
    ] = None,
    unsure: Annotated[
        bool,
        typer.Option(
            "--unsure",
            help="Also take rows of tables for like sizes on GPUs of the same architecture, where the model "
            "does not know it: most of them gain, and some lose.",
            rich_help_panel=TABLES,
        ),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Write the tables of a model for a GPU, without that GPU or with timings of it, or check tables.

    Each row says in the manifest how it is known. Where nothing says that the framework's default loses, the
    row is that default.

    Examples:
    - `costmodel serve-tables --model Qwen3-30B-A3B/config.json --device "NVIDIA L40S" --out tables`
    - `costmodel serve-tables --model config.json --device H200 --tensor-parallel 8 --format sglang
      --triton 3.6.0 --out tables`
    """
    if context.invoked_subcommand:
        if said(context):
            raise typer.BadParameter(f"Options must follow `{context.invoked_subcommand}`.")
        return
    if model is None or device is None or out is None:
        raise typer.BadParameter("--model, --device and --out must be given together.")
    from costmodel.serving import serve_tables as serve
    from costmodel.serving._tables import find_shares

    asked: dict[str, Any] = {
        "sms": sms,
        "framework": form,
        "triton": triton,
        "tensor_parallel": tensor_parallel,
        "expert_parallel": expert_parallel,
        "unsure": unsure,
    }
    found = serve(model, device, **asked, timings=timings)
    found.write(out)
    rows = [
        (path.rpartition("/")[2], ", ".join(table.used_by), _count(row.origin for row in table.rows.values()))
        for path, table in found.tables.items()
    ]
    if rows:
        print_table(TextTable(f"{found.model} on {found.device}", ("table", "for", "rows"), rows, "lww"))
    for sentence in found.left_out:
        print_line(sentence)
    print_line(f"Written: {out} (content {found.content[:16]}). {_how_to_use(form, out, found.tables)}")
    if found.tables and device != found.device:
        print_line(
            f"Their names are for a GPU that its driver calls {found.device}. Where "
            "`torch.cuda.get_device_name()` tells another name, rename them: that is what servers look for."
        )
    if not found.tables and timings is None:
        print_line(_how_to_know_more(unsure))
        if shares := find_shares(model, device, **asked):
            numbers = " or ".join(map(str, shares))
            print_line(f"With --tensor-parallel {numbers} rows are known, if so many GPUs share the model.")
    write_json(json, {"content": found.content, "origins": found.origins, "tables": dict(found.tables)})


@app.command()
def check(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Folder with tables of vLLM or SGLang, in any depth; or one table.",
            show_default=False,
        ),
    ],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The GPU that they are for. Default: as the name of each file says.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """List rows to time again: those that cannot run, and those unlike what like tables have.

    It ends with 1 if there are some.

    Examples:
    - `costmodel serve-tables check vllm/model_executor/layers/fused_moe/configs --device H200`
    """
    from costmodel.serving import check_tables

    found = check_tables(folder, device)
    rows = [
        (each.table, str(each.tokens), each.reason, "-".join(map(str, each.config.values())))
        for each in found.doubts[:_SHOWN]
    ]
    if rows:
        print_table(TextTable("", ("table", "tokens", "reason", "row"), rows, "lrwl"))
    print_line(
        f"{len(found.doubts):,} of {found.rows:,} rows of {found.tables} tables should be timed again; of "
        f"{found.unjudged:,} rows too few tables are alike to tell."
    )
    write_json(json, found)
    if found.doubts:
        raise typer.Exit(1)


def _count(origins: Iterable[str]) -> str:
    return ", ".join(f"{count} {origin}" for origin, count in Counter(origins).most_common())


def _how_to_use(form: str, out: Path, tables: Iterable[str]) -> str:
    """What to do with tables of linear layers, and with others, as far as there are some."""
    are_linear = {path.startswith("linear/") for path in tables}
    said = [f"Copy {out / 'linear'}/*.json to {_PACKAGES[form]}."] if True in are_linear else []
    said += [f"Start the server with {_VARIABLES[form]}={out}."] if False in are_linear else []
    return " ".join(said) or "No table is in it: start the server without one."


def _how_to_know_more(unsure: bool) -> str:
    """What may find rows where nothing that is known without the GPU does."""
    timed = "`--timings 16`, on that GPU, times rows beside the default and takes those that win."
    return timed if unsure else f"{timed} `--unsure` takes rows of like tables: most of them gain, some lose."
