from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.kernels.family._source import load_module

pytestmark = pytest.mark.white_box


def test_a_file_that_every_user_may_write_to_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("VALUE = 3\n")
    file.chmod(0o666)
    with pytest.raises(CostModelError, match=r"must not be writable for every user, but it is"):
        load_module(file)
    file.chmod(0o644)
    assert load_module(file).VALUE == 3
