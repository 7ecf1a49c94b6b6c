"""The tables of jobs, their tasks and who works on them, in any database that SQLAlchemy knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    create_engine,
)
from sqlalchemy.exc import (
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from costmodel.databases import parse_database
from costmodel.errors import CostModelError
from costmodel.reading import exists

METADATA = MetaData()

JOBS = Table(
    "costmodel_jobs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", String(16), nullable=False),  # tells jobs of one id in two databases apart
    Column("name", Text, nullable=False),
    Column("submitter", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("submitted_at", Float, nullable=False),  # times are seconds since the epoch
    Column("cancelled_at", Float),
    Column("runner", String(16), nullable=False),
    Column("rule", String(32), nullable=False),
    Column("total", Integer, nullable=False),
    Column("slice", Integer, nullable=False),
    Column("specification", Text, nullable=False),  # a Job as JSON
)

TASKS = Table(
    "costmodel_tasks",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey(JOBS.c.id), nullable=False),
    Column("position", Integer, nullable=False),  # among the job's tasks
    Column("name", Text, nullable=False),
    Column("weight", Float, nullable=False),
    Column("state", String(16), nullable=False),  # open, done or failed
    Column("trials", Integer, nullable=False, default=0),
    Column("best_s", Text, nullable=False, default="[]"),  # after each slice, as JSON
    Column("expected_gain", Float),
    Column("answer", Text),  # an Answer as JSON
    Column("error", Text),
)

# Each lease that there ever was: whoever inserts the next number of a task has the task.
LEASES = Table(
    "costmodel_leases",
    METADATA,
    Column("task", ForeignKey(TASKS.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("worker", Text, nullable=False),  # a ProcessMark as JSON
    Column("begun", Float, nullable=False),
    Column("until", Float, nullable=False),  # it holds so long unless it is renewed
    Column("ended", Float),
    Column("trials", Integer, nullable=False),  # that it is for
    Column("made", Integer, nullable=False, default=0),  # of them
)

_TRIES = 20


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
        _create_tables(engine)
        return engine


@contextmanager
def explaining_failures(place: str) -> Iterator[None]:
    """Say which database fails, and how its driver says so.

    Raises:
        CostModelError: A call of the database fails.
    """
    try:
        yield
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise explain_failure(place, error) from error


def explain_failure(place: str, error: Exception) -> CostModelError:
    """Say what a database that fails must do."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return CostModelError(f"The job store {place} must be a database that answers, but: {first}.")


def _create_tables(engine: Engine) -> None:
    """Make the tables. Of processes that do so at the same moment one is ahead, and the others look again."""
    for _ in range(_TRIES):
        try:
            return METADATA.create_all(engine)
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
    return METADATA.create_all(engine)


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
