"""The databases that jobs are kept in."""

from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database of a real PostgreSQL server."""
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    with postgres.server(programs) as url:
        yield url.format("postgres")


@pytest.fixture
def postgres_place(postgres_url: str) -> str:
    """The same, empty."""
    return postgres.emptied(postgres_url)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "jobs.db")
    url: str = request.getfixturevalue("postgres_place")
    return url
