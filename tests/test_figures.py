from pathlib import Path

import pytest
from matplotlib.figure import Figure

from costmodel.errors import CostModelError
from costmodel.report._figures import save_figure

pytestmark = pytest.mark.white_box

BEGINS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".PDF": b"%PDF"}


@pytest.mark.parametrize("ending", BEGINS)
def test_a_picture_is_what_its_name_says(tmp_path: Path, ending: str) -> None:
    file = tmp_path / "new" / f"a{ending}"
    save_figure(Figure(), file)
    assert file.read_bytes().startswith(BEGINS[ending])


@pytest.mark.parametrize("ending", [".png", ".pdf"])
def test_the_same_picture_is_the_same_file(tmp_path: Path, ending: str) -> None:
    files = [tmp_path / f"{name}{ending}" for name in ("a", "b")]
    for file in files:
        save_figure(Figure(), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"must be a file that ends in \.png or \.pdf or \.svg"):
        save_figure(Figure(), tmp_path / "a.html")
    assert not list(tmp_path.iterdir())
