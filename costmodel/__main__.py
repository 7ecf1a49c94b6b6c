"""``python -m costmodel``: the command line."""

from costmodel.cli import main

main()
