"""The tables of jobs, their tasks and who works on them how busily, in any database that SQLAlchemy knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from sqlalchemy import (
    Column,
    Engine,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
)
from sqlalchemy.exc import (
    NoSuchModuleError,
    SQLAlchemyError,
)

from costmodel.databases import create_tables, parse_database
from costmodel.errors import CostModelError, shorten
from costmodel.reading import decode_json, exists
from costmodel.service._job import RuleName, RunnerName

METADATA = MetaData()

T = TypeVar("T")
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Amount = Annotated[float, msgspec.Meta(ge=0.0, lt=1e18)]  # NaN and infinity are none


class _DamagedRowError(ValueError):
    """A row has a value that no store has."""


class _Checked(TypeDecorator[Any]):
    """A type of column whose values are checked as they are read: SQLite keeps anything in any column.

    Args:
        of: Type in the database.
        kind: Type of the values.
    """

    impl = Text
    cache_ok = True

    def __init__(self, of: Any, kind: Any) -> None:
        super().__init__()
        self.of, self.kind = of, kind
        self.impl = of

    def process_result_value(self, value: Any, _: Any) -> Any:
        try:
            return msgspec.convert(value, self.kind)
        except msgspec.ValidationError as error:
            raise _DamagedRowError(f"a row has {shorten(repr(value), 60)} ({error})") from error


def decode_kept(text: str, kind: type[T] | Any) -> T:
    """Decode JSON that a column keeps. Use it in ``explaining_failures``.

    Raises:
        ValueError: It is no such value.
    """
    try:
        return decode_json(text, kind)  # type: ignore[no-any-return]
    except Exception as error:  # decoders raise what they like
        raise _DamagedRowError(f"a row has {shorten(repr(text), 60)} ({error})") from error


_WHOLE, _TIME = _Checked(Integer(), _Whole), _Checked(Float(), _Amount)  # times are seconds since the epoch
_TEXT = _Checked(Text(), str)

JOBS = Table(
    "costmodel_jobs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", _Checked(String(16), str), nullable=False),  # tells jobs of one id in two databases apart
    Column("name", _TEXT, nullable=False),
    Column("submitter", _TEXT, nullable=False),
    Column("priority", _Checked(Integer(), int), nullable=False),
    Column("submitted_at", _TIME, nullable=False),
    Column("cancelled_at", _Checked(Float(), _Amount | None)),
    Column("runner", _Checked(String(16), RunnerName), nullable=False),
    Column("rule", _Checked(String(32), RuleName), nullable=False),
    Column("total", _WHOLE, nullable=False),
    Column("slice", _WHOLE, nullable=False),
    Column("specification", _TEXT, nullable=False),  # a Job as JSON
)

TASKS = Table(
    "costmodel_tasks",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey(JOBS.c.id), nullable=False),
    Column("position", _WHOLE, nullable=False),  # among the job's tasks
    Column("name", _TEXT, nullable=False),
    Column("weight", _Checked(Float(), _Amount), nullable=False),
    Column("state", _Checked(String(16), Literal["open", "done", "failed"]), nullable=False),
    Column("trials", _WHOLE, nullable=False, default=0),
    Column("best_s", _TEXT, nullable=False, default="[]"),  # after each slice, as JSON
    Column("expected_gain", _Checked(Float(), float | None)),
    Column("answer", _Checked(Text(), str | None)),  # an Answer as JSON
    Column("error", _Checked(Text(), str | None)),
)

# Of tasks that name a device; a table of its own, which stores of earlier versions get when they are opened.
DEVICES = Table(
    "costmodel_devices",
    METADATA,
    Column("task", ForeignKey(TASKS.c.id), primary_key=True),
    Column("device", _Checked(Text(), str | None), nullable=False),  # None where tasks without one are joined
)

# Each lease that there ever was: whoever inserts the next number of a task has the task.
LEASES = Table(
    "costmodel_leases",
    METADATA,
    Column("task", ForeignKey(TASKS.c.id), primary_key=True),
    Column("number", _WHOLE, primary_key=True, autoincrement=False),
    Column("worker", _TEXT, nullable=False),  # a ProcessMark as JSON
    Column("begun", _TIME, nullable=False),
    Column("until", _TIME, nullable=False),  # it holds so long unless it is renewed
    Column("ended", _Checked(Float(), _Amount | None)),
    Column("trials", _WHOLE, nullable=False),  # that it is for
    Column("made", _WHOLE, nullable=False, default=0),  # of them
)

# What a process had done of a stage by some time, since it began; see ``_usage``.
USAGE = Table(
    "costmodel_usage",
    METADATA,
    Column("process", _TEXT, primary_key=True),
    Column("stage", _TEXT, primary_key=True),
    Column("place", _TEXT, primary_key=True),  # what it is done on
    Column("at", _TIME, primary_key=True, index=True),
    Column("places", _WHOLE, nullable=False),
    Column("waiting", _WHOLE, nullable=False),
    Column("done", _WHOLE, nullable=False),
    Column("busy_s", _TIME, nullable=False),
)


def open_database(place: str, *, create: bool = True) -> Engine:
    """A database with the tables.

    Args:
        place: A path that ends in ``.db`` for SQLite, or a URL as SQLAlchemy takes it.
        create: Make the file of a path where there is none.

    Raises:
        CostModelError: The place is neither, cannot be opened, or is a file that is not there or made.
    """
    with explaining_failures(place):
        engine = _engine(place, create)
        create_tables(METADATA, engine)
        return engine


@contextmanager
def explaining_failures(place: str) -> Iterator[None]:
    """Say which database fails, and how its driver says so, or what of its rows is damaged.

    Raises:
        CostModelError: A call of the database fails, or it holds what no store has.
    """
    try:
        yield
    except _DamagedRowError as error:
        raise CostModelError(
            f"The job store {place} must be as `costmodel jobs` writes it, but {error}. Restore it from a "
            "copy, or begin another store."
        ) from error
    except (SQLAlchemyError, UnicodeDecodeError, ModuleNotFoundError) as error:  # names that are not UTF-8
        raise explain_failure(place, error) from error


def explain_failure(place: str, error: Exception) -> CostModelError:
    """Say what a database that fails must do."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return CostModelError(f"The job store {place} must be a database that answers, but: {first}.")


def _engine(place: str, create: bool) -> Engine:
    url = parse_database(place, "A job store")
    if "://" in place:
        try:
            return create_engine(url, pool_pre_ping=True)
        except NoSuchModuleError as error:
            raise CostModelError(
                f"A job store must be at a URL such as postgresql://host/name, but got {place}: {error}."
            ) from None
    path = Path(place)
    if not create and not exists(path):
        raise CostModelError(
            f"A job store must exist to be queried, but there is no file {place}: submit a job to it, or "
            "name another store."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # A writer waits for others this long: several workers on a slow disk take a second now and then.
    return create_engine(url, connect_args={"timeout": 60})
