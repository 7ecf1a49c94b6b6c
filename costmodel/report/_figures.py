"""Figures that display in a notebook and are written atomically. Loads matplotlib."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from costmodel.files import check_picture, write_whole

# What a format would say of a file's making: nothing, so that the same picture is the same file.
_SILENT: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}


class NotebookFigure(Figure):
    """A figure that a notebook displays without pyplot."""

    def _repr_png_(self) -> bytes:
        return _encoded(self, ".png", 100)


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure as PNG, PDF or SVG, by the suffix of the file name; create its folder.

    Args:
        figure: Figure to write.
        path: Path of the file.
        dpi: Resolution of a PNG, in pixels per inch.

    Raises:
        CostModelError: If the suffix is another one, or the file cannot be written.
    """
    check_picture(path)
    write_whole(path, _encoded(figure, path.suffix.lower(), dpi))


def _encoded(figure: Figure, ending: str, dpi: int) -> bytes:
    content = BytesIO()
    figure.savefig(content, format=ending.removeprefix("."), dpi=dpi, metadata=_SILENT[ending])
    return content.getvalue()
