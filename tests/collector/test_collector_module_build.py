"""What becomes of builds of modules; the workers themselves have tests of their own."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from costmodel.collector._build import ModuleBuilders, ModuleSource
from costmodel.collector._engine import WorkerDiedError
from costmodel.kernels._artifact import Built
from costmodel.records import Outcome

pytestmark = pytest.mark.white_box

DONE = Built(Outcome.OK, Path("module.so"))


class FakeWorkers:
    """Gives each job what its program says."""

    def submit(self, _: Any, source: ModuleSource, folder: Path, *, timeout_s: float) -> "Future[Built]":
        assert folder.is_dir()
        assert timeout_s == 7.0
        future: Future[Built] = Future()
        endings = {"hangs": TimeoutError(), "dies": WorkerDiedError("exit code -9")}
        if source.program in endings:
            future.set_exception(endings[source.program])
        else:
            future.set_result(DONE)
        return future

    def close(self) -> None: ...


def test_what_hangs_or_dies_costs_its_own_module_alone() -> None:
    builders = ModuleBuilders(lambda _: FakeWorkers(), 7.0)
    built = builders.build([ModuleSource(program, "{}") for program in ("works", "hangs", "dies", "works")])
    builders.close()
    builders.close()
    assert [one.outcome for one in built] == ["ok", "timeout", "compile_error", "ok"]
    assert [one.error for one in built] == [
        "",
        "the build took more than 7 s",
        "the build worker died (exit code -9)",
        "",
    ]
