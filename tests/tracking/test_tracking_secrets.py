"""Passwords in URLs reach no run, and no message."""

import sys
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.tracking import MlflowTracker, Parameter, tracked_run
from costmodel.tracking._describe import describe_config, describe_environment
from costmodel.tracking._uri import how_to_look, resolve_tracking_uri

pytestmark = pytest.mark.white_box

STUDY = "postgresql://me:s3cret@host/name?sslpassword=s3cret&x=1"
SERVER = "https://me:s3cr@et@host:5000"


def kept(tracker: MlflowTracker, tmp_path: Path) -> str:
    """All that is kept of the runs: the whole database and every file."""
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def test_no_secret_is_kept_with_a_run(
    tracker: MlflowTracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["/usr/bin/costmodel", "tune", "--study", STUDY, "--tracking-uri", SERVER]
    monkeypatch.setattr(sys, "argv", command)

    def fail() -> None:
        with tracked_run(tracker, "secret", "any") as run:
            run.log(describe_environment())
            run.log(describe_config({"study": STUDY, "more": [SERVER]}))
            raise CostModelError(f"{STUDY} must be open.")

    with pytest.raises(CostModelError):
        fail()
    found = kept(tracker, tmp_path)
    assert "postgresql://me:***@host/name?sslpassword=***&x=1" in found
    assert "https://me:***@host:5000" in found
    assert "s3cr" not in found


def test_no_secret_is_shown() -> None:
    assert how_to_look(SERVER) == "open https://me:***@host:5000/"
    assert "s3cret" not in how_to_look(STUDY)
    with pytest.raises(CostModelError) as refused:
        resolve_tracking_uri("ftp://me:s3cret@host")
    assert "s3cret" not in str(refused.value)


def test_a_url_without_a_secret_stays_as_it_is() -> None:
    for text in ("http://localhost:5000", "postgresql://me@host:5432/a", "a:b@c", "sqlite:///out/mlflow.db"):
        parameter, _ = describe_config({"at": text})
        assert parameter == Parameter("at", text)
