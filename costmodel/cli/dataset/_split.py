"""``costmodel dataset split``: write a named split into a dataset's folder."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.cli._options import (
    RANDOM,
    SPLIT,
    FoldsOption,
    JsonOption,
    KeepTwinsApartOption,
    count_option,
    number_option,
    seed_option,
)
from costmodel.cli._output import print_line, print_table, print_twins, watch_output, write_json
from costmodel.cli.dataset._arguments import DatasetPath
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.dataset.splits._make import FoldSize, Split


def split(
    context: typer.Context,
    dataset: DatasetPath,
    *,
    strategy: Annotated[
        str,
        typer.Option(
            metavar="STRATEGY",
            help="Strategy: leave-one-workload-out, leave-one-operator-kind-out, leave-one-budget-out (SM "
            "budgets), "
            "leave-one-device-out, leave-one-architecture-out, whole-device-only, random, few-shot or "
            "final-report (the tasks that the dataset reserves for it).",
            rich_help_panel=SPLIT,
        ),
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the split.", rich_help_panel=SPLIT)],
    seed: Annotated[
        int, seed_option("Seed of the random and few-shot strategies.", rich_help_panel=RANDOM)
    ] = 0,
    share: Annotated[
        float,
        number_option(
            "above 0 and below 1",
            lambda share: 0 < share < 1,
            metavar="SHARE",
            help="For random: share of each task's rows to hold out.",
            rich_help_panel=RANDOM,
        ),
    ] = 0.2,
    shots: Annotated[
        int,
        count_option(
            help="For few-shot: number of rows of each held-out task to train on.", rich_help_panel=RANDOM
        ),
    ] = 8,
    base: Annotated[
        str,
        typer.Option(
            metavar="STRATEGY",
            help="For few-shot: strategy that chooses the held-out tasks.",
            rich_help_panel=RANDOM,
        ),
    ] = "leave-one-workload-out",
    keep_twins_apart: KeepTwinsApartOption = False,
    folds: FoldsOption = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing split of this name.", rich_help_panel=SPLIT)
    ] = False,
    json: JsonOption = None,
) -> None:
    """Write a named split into the dataset's folder, for `costmodel evaluate --split NAME`.

    It goes to `splits/NAME.json` and into `SHA256SUMS`; the same dataset and options give the same bytes.

    Examples:
    - `costmodel dataset split datasets/mine --strategy leave-one-device-out --name devices-v1`
    - `costmodel dataset split datasets/mine --strategy few-shot --shots 4 --seed 1 --name four-shots`
    """
    from costmodel.dataset.splits._file import write_split
    from costmodel.dataset.splits._make import SplitRecipe, fold_sizes, make_split
    from costmodel.dataset.table._files import find_dataset
    from costmodel.dataset.table._read import load_dataset
    from costmodel.dataset.table._records import LATENCIES

    watch_output(context, find_dataset(dataset) / "splits")
    recipe = SplitRecipe(strategy, seed, share, shots, base, keep_twins_apart, folds)
    loaded = load_dataset(dataset, facts=LATENCIES)
    made = make_split(loaded, recipe, name)
    file = write_split(loaded, made, force=force)
    sizes = fold_sizes(loaded, made)
    print_table(_fold_table(made, sizes))
    print_twins(made)
    print_line(f"Written: {file} ({strategy}, folds: {len(sizes)})")
    write_json(
        json,
        {
            "path": file,
            "name": name,
            "strategy": strategy,
            "seed": seed,
            "parameters": recipe.parameters,
            "dataset_sha256": loaded.sha256,
            "twins": made.twins,
            "folds": sizes,
        },
    )


def _fold_table(made: "Split", sizes: "Iterable[FoldSize]") -> TextTable:
    columns = {
        "train_rows": "train rows",
        "shots": "of these shots",
        "test_rows": "test rows",
        "tasks": "tasks",
    }
    if made.recipe.strategy != "few-shot":
        del columns["shots"]
    rows = [(size.held_out, *(f"{getattr(size, name):,}" for name in columns)) for size in sizes]
    return TextTable(made.name, ("held out", *columns.values()), rows)
