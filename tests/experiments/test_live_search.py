import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "live_search"


@pytest.fixture(scope="module")
def report():
    """The experiment's module, whose neighbours are found beside it."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("live_search_report", FOLDER / "report.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


FOUND = {
    "improvements": [
        {"elapsed_s": 10.0, "latency_s": 4e-6},
        {"elapsed_s": 20.0, "latency_s": 5e-6},  # better by the search's own stopwatch only
        {"elapsed_s": 30.0, "latency_s": 2e-6},
    ]
}


def test_what_a_search_gives_at_a_time_is_what_it_then_took_for_the_best(report):
    assert [report.best_at(FOUND, s) for s in (9.0, 10.0, 25.0, 30.0)] == [np.inf, 4e-6, 5e-6, 2e-6]


def test_a_latency_is_reached_by_the_first_kernel_that_is_as_fast(report):
    assert [report.time_to(FOUND, s) for s in (4e-6, 3e-6, 1e-6)] == [10.0, 30.0, np.inf]


def test_the_recorded_run_says_what_the_readme_says(report):
    rows = json.loads((FOLDER / "result.json").read_text())
    table = report.table(rows)
    assert (
        "costmodel beside stock, 8 cases: latency at equal time 0.643 (geometric mean), "
        "time to its latency cut by 80% (median), 71% at least." in table
    )
    assert "costmodel beside stock, our builders, 3 cases: latency at equal time 0.746" in table
    assert (
        "| conv2d-n1-c256-h14-w14-o256-k3-s1 | 32 | costmodel | 128 | 0 | 251 | 48.24 | 0.605 | 57.3 |"
        in table
    )
