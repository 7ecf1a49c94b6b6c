"""Executing the notebooks. As a script it keeps their outputs in their files: of all, or of those named."""

import base64
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Imports stand in functions: the extra `notebooks` is not there where these tests are only collected.

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Longest cell: a campaign, on a machine that others use as well.
_CELL_S = 300


def read(path: Path) -> "NotebookNode":
    """The notebook as it is in its file."""
    import nbformat

    return nbformat.read(path, as_version=4)


def execute(path: Path, *, without: tuple[str, ...] = ()) -> "NotebookNode":
    """The notebook, run from top to bottom in its folder by a kernel in a new process.

    Args:
        path: Its file, which stays as it is.
        without: Packages that the kernel cannot import.
    """
    from nbclient import NotebookClient

    notebook = read(path)
    with tempfile.TemporaryDirectory() as scratch:
        for package in without:
            refusal = f'raise ImportError("{package} is not installed")\n'
            (Path(scratch) / f"{package}.py").write_text(refusal, encoding="utf-8")
        # The package beside these tests, whatever is installed, and nobody's own settings of IPython.
        paths = [scratch, str(ROOT), os.environ.get("PYTHONPATH", "")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "IPYTHONDIR": scratch}
        client = NotebookClient(
            notebook,
            timeout=_CELL_S,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute(env=env)
    for cell in (each for each in notebook.cells if each.cell_type == "code"):
        cell.outputs = [output for output in cell.outputs if not _is_gone(output)]
    return notebook


def _is_gone(output: "NotebookNode") -> bool:
    """Whether progress was shown there: that depends on how long a cell took, and is empty in the end."""
    return output.get("data", {}).get("text/html") == ""


def keep_outputs(path: Path) -> None:
    """Execute a notebook, and write it with its outputs and nothing that changes from run to run."""
    import nbformat

    notebook = execute(path)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            if "image/png" in data:
                data["image/png"] = _smaller(data["image/png"])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


def _smaller(png: str) -> str:
    """A picture in base64 with a palette of its own: a third of the bytes, and one cannot see it."""
    from PIL import Image

    written = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        image.convert("RGB").quantize(128).save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


if __name__ == "__main__":
    for chosen in map(Path, sys.argv[1:] or NOTEBOOKS):
        keep_outputs(chosen)
