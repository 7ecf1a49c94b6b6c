"""``costmodel dataset``: makes datasets of measurements, checks, splits, compares and exports them."""

from costmodel.cli._options import CommandGroup
from costmodel.cli.dataset._build import append, build, export, merge
from costmodel.cli.dataset._describe import describe, diff, validate
from costmodel.cli.dataset._import import import_tables
from costmodel.cli.dataset._read_facts import read_facts
from costmodel.cli.dataset._split import split

app = CommandGroup()
for _command in (build, merge, append, validate, describe, split, diff, export):
    app.command()(_command)
app.command("read-facts")(read_facts)
app.command("import")(import_tables)


@app.callback()
def _group() -> None:
    """Build a dataset from record stores or files of other programs; check, describe, split or export it."""
