"""``python -m costmodel``: the command line."""

from costmodel.cli._app import main

if __name__ == "__main__":
    main()
