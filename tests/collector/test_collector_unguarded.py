"""Scripts that start worker processes while a worker imports them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pebble")

SENTENCE = 'must do so under `if __name__ == "__main__":`'
BARE = """
from costmodel.collector import LocalEngine
engine = LocalEngine(2)
print(engine.submit(divmod, 7, 2).result(600))
"""
IN_A_FUNCTION = """
import sys
from costmodel import CostModelError
from costmodel.collector import CpuRunner

def main():
    try:
        CpuRunner()
    except CostModelError as error:
        print(error, file=sys.stderr)
        return 3

sys.exit(main())
"""
FAILS_BEFORE = """
from multiprocessing import current_process
from costmodel.collector import LocalEngine
if current_process().name != "MainProcess":
    raise OSError("the folder is taken")
LocalEngine(1).submit(divmod, 7, 2).result(600)
"""
GUARDED = f"""
from costmodel.collector import LocalEngine
if __name__ == "__main__":
    {"; ".join(BARE.strip().splitlines()[1:])}
"""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    file = folder / "script.py"
    file.write_text(script)
    return subprocess.run(
        [sys.executable, str(file)], check=False, capture_output=True, text=True, timeout=600
    )


@pytest.mark.parametrize("script", [BARE, IN_A_FUNCTION, FAILS_BEFORE])
def test_it_is_told_in_one_sentence_what_is_wrong_with_the_script(tmp_path: Path, script: str) -> None:
    done = run(tmp_path, script)
    assert done.returncode != 0
    assert SENTENCE in done.stderr.splitlines()[-1]
    assert str(tmp_path / "script.py") in done.stderr.splitlines()[-1]
    assert "memory" not in done.stderr
    assert done.stderr.count("Traceback") <= 2


def test_a_guarded_script_runs(tmp_path: Path) -> None:
    done = run(tmp_path, GUARDED)
    assert (done.returncode, done.stdout) == (0, "(3, 1)\n")
