"""The program ``costmodel``, which is ``python -m costmodel`` too: the command line."""

import sys


def run_program() -> None:
    """Run the command line; Ctrl-C while it is imported, or after a command, ends it with a sentence too."""
    try:
        from costmodel.cli._app import main as run

        run()
    except KeyboardInterrupt:
        print("Interrupted. No command was running.", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    run_program()
