"""Pictures that show themselves in a notebook and are written whole. Loads matplotlib."""

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


class Picture(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        return _encoded(self, ".png", 100)


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure as PNG, PDF or SVG, as the file's name ends; its folder is made.

    Args:
        figure: What to write.
        path: File.
        dpi: Pixels an inch, of a PNG.

    Raises:
        CostModelError: The name ends otherwise, or the file cannot be written.
    """
    check_picture(path)
    write_whole(path, _encoded(figure, path.suffix.lower(), dpi))


def _encoded(figure: Figure, ending: str, dpi: int) -> bytes:
    content = BytesIO()
    figure.savefig(content, format=ending.removeprefix("."), dpi=dpi, metadata=_SILENT[ending])
    return content.getvalue()
