"""Databases that users name by a path or a URL."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.arguments import check_text
from costmodel.errors import CostModelError
from costmodel.reading import check_place

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine, MetaData

SQLITE_ENDINGS = (".db", ".sqlite", ".sqlite3")


def parse_database(place: str, what: str = "A database", *, endings: Sequence[str] = SQLITE_ENDINGS) -> "URL":
    """Parse the place of a database: a file of SQLite, or a URL as SQLAlchemy takes it.

    A path stays a path: none of its characters has a meaning in the URL. PostgreSQL is reached by the driver
    that the extra ``postgresql`` brings where none is named: SQLAlchemy takes psycopg2 up to 2.0, and another
    one from 2.1 on.

    Args:
        place: A path that ends in ``.db``, ``.sqlite`` or ``.sqlite3``, or a URL.
        what: What is kept there, such as ``"A job store"``, for messages.
        endings: What a path may end in, for messages.

    Raises:
        CostModelError: If it is neither, or the path is that of a folder, a device or a pipe.

    Example:
        >>> parse_database("out/50%.db", "A study").database
        'out/50%.db'
        >>> parse_database("postgresql://host/name", "A study").drivername
        'postgresql+psycopg2'
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    check_text("the place of a database", place, most=4096)
    if "://" not in place:
        if Path(place).suffix not in SQLITE_ENDINGS:
            raise CostModelError(
                f"{what} must be a file that ends in {', '.join(endings)}, or a URL such as "
                f"postgresql://host/name, but got {place!r}."
            )
        check_place(place, what)
        return URL.create("sqlite", database=place)
    try:
        url = make_url(place)
    except (ArgumentError, ValueError) as error:  # a port that is no number is a ValueError
        raise CostModelError(
            f"{what} must be at a URL such as postgresql://host/name, but got {place}: {error}."
        ) from None
    if url.drivername.partition("+")[0] == "sqlite" and url.database:
        check_place(url.database, what)
    return url.set(drivername="postgresql+psycopg2") if url.drivername == "postgresql" else url


def is_database(place: object) -> bool:
    """Tell whether a place is that of a database: a URL, or a path with an ending of SQLite's."""
    return "://" in str(place) or Path(str(place)).suffix in SQLITE_ENDINGS


_TRIES = 20


def create_tables(metadata: "MetaData", engine: "Engine") -> None:
    """Make tables. Of processes that do so at the same moment one is ahead, and the others look again."""
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    for _ in range(_TRIES):
        try:
            return metadata.create_all(engine)
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
    return metadata.create_all(engine)
