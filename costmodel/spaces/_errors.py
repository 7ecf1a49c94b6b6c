"""What can be wrong with a config."""

from costmodel.errors import CostModelError


class InvalidConfigError(CostModelError):
    """A config that no kernel can be made of: an outcome to learn from, not a failure of the program."""
