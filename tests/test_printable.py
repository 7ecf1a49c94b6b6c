"""Secrets are masked, and nothing that is shown steers a terminal."""

import logging
import os
import subprocess
from pathlib import Path

import pytest
from command_line import command

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.printable import is_secret, make_printable, mask_secrets
from costmodel.reading import read_json

HIDDEN = [
    ("postgresql://bob:s3cret@host/name", "postgresql://bob:***@host/name"),
    ("postgresql://bob:s3c@ret@host/name", "postgresql://bob:***@host/name"),
    ("postgresql://bob:s3/c?r#et@host/name", "postgresql://bob:***@host/name"),
    ("postgresql://bob:my s3cret@host/name: no", "postgresql://bob:***@host/name: no"),
    ("postgresql://bob:s3cret@[::1]:5432/name", "postgresql://bob:***@[::1]:5432/name"),
    ("postgresql://:s3cret@host", "postgresql://:***@host"),
    ("postgresql://bob:123@host", "postgresql://bob:***@host"),
    ("postgress:/bob:s3cret@host/name", "postgress:/bob:***@host/name"),
    ("postgresql//bob:s3cret@host", "postgresql//bob:***@host"),
    ("postgresql:bob:s3cret@host", "postgresql:***@host"),
    ("bob:s3cret@host/name", "bob:***@host/name"),
    ("'--study=x://bob:s3cret@host'", "'--study=x://bob:***@host'"),
    ("x://host/?user=bob&PASSWORD=s3cret&port=1", "x://host/?user=bob&PASSWORD=***&port=1"),
    ("got 'x://host/?p%61ssword=s3cret'.", "got 'x://host/?p%61ssword=***'."),
    ("https://host/?api_key=s3cret: refused", "https://host/?api_key=***: refused"),
    ("host=here password=s3cret dbname=x", "host=here password=*** dbname=x"),
]
SHOWN = (
    "http://localhost:5000",
    "http://localhost:5000 must answer: write to me@here",
    "postgresql://me@host:5432/name",
    "sqlite:///out/mlflow.db",
    "a:b@c",
    "tests/x.py:12: tokens=5 of matmul@H100",
    "Score@1: 0.5",
)


@pytest.mark.parametrize(("text", "masked"), HIDDEN)
def test_a_secret_is_masked_once(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", SHOWN)
def test_a_text_without_a_secret_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_names_of_secrets() -> None:
    assert all(map(is_secret, ("password", "sslPassword", "access_token", "API-key", "client_secret", "pwd")))
    assert not any(map(is_secret, ("tokens", "key", "pass", "sms", "signature")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202egnp.exe", r"a\u202egnp.exe"),
        ("a\u2066b\u200bc", r"a\u2066b\u200bc"),
        ("one\r\ntwo", r"one\r\ntwo"),
        ("\udcff", r"\udcff"),
        ("µ é 日本 a\xa0b", "µ é 日本 a\xa0b"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert make_printable(text) == shown == make_printable(shown)


def test_line_breaks_may_stay() -> None:
    assert make_printable("a\x1b\nb", keep_lines=True) == "a\\x1b\nb"


def test_an_error_has_no_secret_whoever_shows_it() -> None:
    assert str(CostModelError("No answer from x://bob:s3cret@host.")) == "No answer from x://bob:***@host."


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list", "--store", "postgresql://bob:s3cret@127.0.0.1:1/db"),
        ("jobs", "list", "--store", "postgresq://bob:s3cret@127.0.0.1/db"),
        ("jobs", "list", "--store", "postgresql://bob:s3cret@127.0.0.1:port/db"),
        ("jobs", "list", "--store", "postgresql://bob@127.0.0.1:1/db?password=s3cret"),
        ("jobs", "show", "postgresql://bob:s3cret@127.0.0.1/db"),
        ("jobs", "cancel", "1", "postgresql://bob:s3cret@127.0.0.1/db"),
        ("tune", "matmul-m16-n1024-k1024", "--study", "postgresql://bob:s3cret@127.0.0.1:1/db"),
        ("tune", "matmul-m16-n1024-k1024", "--study", "postgresql://bob:{s3cret}@127.0.0.1:1/db"),
        ("experiments", "list", "--tracking-uri", "ftp://bob:s3cret@127.0.0.1/db"),
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_no_command_tells_a_password(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "s3cret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_libraries_log_and_warn_of_is_printable() -> None:
    before = logging.getLogRecordFactory()
    logged = (
        "from costmodel.cli._output import log_printable; import logging, warnings; log_printable()\n"
        "logging.getLogger('any').warning('at %s', 'x://bob:s3cret@host \\x1b[2J')\n"
        "warnings.warn('x://bob:s3cret@host')"
    )
    done = subprocess.run([*command()[:2], logged], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.startswith("at x://bob:***@host \\x1b[2J\n")
    assert done.stderr.splitlines()[1] == "UserWarning: x://bob:***@host"
    assert logging.getLogRecordFactory() is before  # only the command changes what its process logs


def test_the_folder_of_an_installation_is_a_path_not_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def read_text(self, _: str) -> str:
            return '{"url": "file:///home/me/my%20work/50%25", "dir_info": {"editable": true}}'

    monkeypatch.setattr("costmodel.errors.distribution", lambda _: Installed())
    assert "pip install -e '/home/me/my work/50%[dask]'`" in str(MissingExtraError("This", "dask"))


def test_an_error_can_be_printed_whatever_a_name_has(tmp_path: Path) -> None:
    name = os.fsdecode(b"plac\xffed\x1b[2J.json")
    with pytest.raises(CostModelError, match=r"plac\\udcffed\\x1b\[2J.json") as raised:
        read_json(tmp_path / name, dict, "a graph")
    str(raised.value).encode()
