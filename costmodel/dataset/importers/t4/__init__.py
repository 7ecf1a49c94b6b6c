"""T4 files, in the format that the auto-tuning community agreed on."""

from costmodel.dataset.importers.t4._file import T4
from costmodel.dataset.importers.t4._result import show_result

__all__ = ["T4", "show_result"]
