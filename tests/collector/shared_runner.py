"""The runner contract on a runner that other tests use too."""

from collections.abc import Callable

import pytest

from costmodel.collector import Runner
from costmodel.records import Candidate, Config
from costmodel.testing import RunnerCase


def failing_like(candidate: Candidate) -> Candidate:
    """A candidate of the same space that is invalid."""
    return Candidate(candidate.workload, candidate.space, Config({"sketch": 99}))


def check_shared(
    check: Callable[[RunnerCase], None],
    runner: Runner,
    candidates: list[Candidate],
    sms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run a check of the contract. TVM starts once for all checks but the one of closing."""
    shared = "closing" not in check.__name__
    if shared:
        monkeypatch.setattr(runner, "close", lambda: None)
    check(
        RunnerCase(
            (lambda: runner) if shared else type(runner), candidates, failing_like(candidates[0]), sms=sms
        )
    )
