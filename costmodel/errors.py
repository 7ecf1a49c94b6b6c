"""Errors that a user can act on."""


class CostModelError(Exception):
    """Something outside the program is not as it must be.

    The message says what must hold, what was got and what to do. The command line prints it alone, without a
    traceback, and exits with code 2.
    """


class MissingExtraError(CostModelError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional package: run `pip install 'sm-costmodel[{extra}]'`.")


class InvalidConfigError(CostModelError):
    """A config that no kernel can be made of: an outcome to learn from, not a failure of the program."""
