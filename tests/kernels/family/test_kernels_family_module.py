from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.kernels.family._source import find_in, load_module

pytestmark = pytest.mark.white_box


def test_a_file_that_every_user_may_write_to_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("VALUE = 3\n")
    file.chmod(0o666)
    with pytest.raises(CostModelError, match=r"must not be writable for every user, but it is"):
        load_module(file)
    file.chmod(0o644)
    assert load_module(file).VALUE == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(3)", "must run, but raises SystemExit: 3"),
        ("class E(BaseException): ...\nraise E('x')", "must run, but raises E: x"),
        ("class E(Exception):\n  def __str__(self): return 1 / 0\nraise E", r"must run, but raises E\."),
        (
            "def __getattr__(name): raise ValueError(f'no {name}')",
            "must run, but raises ValueError: no VALUE",
        ),
        ("", "must define VALUE, but does not"),
    ],
)
def test_whatever_a_file_raises_is_told_as_its_fault(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "reference.py"
    file.write_text(text)
    with pytest.raises(CostModelError, match=rf"reference.py {message}"):
        find_in(load_module(file), "VALUE", file)


def test_an_interrupt_while_a_file_runs_is_one(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_module(file)
