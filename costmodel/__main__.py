"""``python -m costmodel``: the command line."""

from costmodel.cli import main

if __name__ == "__main__":
    main()
