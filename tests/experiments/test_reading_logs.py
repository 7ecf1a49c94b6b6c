"""The experiment on logs of other tuners runs through in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "reading_logs" / "run.py"


@pytest.mark.tvm
@pytest.mark.rehearsal
def test_every_format_is_read(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    sizes = ["--records", "9", "--megabytes", "1", "--lines", "5"]
    command = [sys.executable, SCRIPT, *sizes, "--json", tmp_path / "result.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    costs = {cost["what"]: cost for cost in json.loads((tmp_path / "result.json").read_text())}
    records = [cost["records"] for cost in costs.values()]
    assert records[:5] == [0, 9, 9, 9, 5]
    tenth, loaded, large = records[5:]
    assert 0 < tenth == loaded < large
    assert all(cost["seconds"] > 0 and cost["peak_bytes"] > 1e6 for cost in costs.values())
    assert len(done.stdout.splitlines()) == 2 + len(costs)
