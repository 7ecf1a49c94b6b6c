"""Where runs are stored. Default: a SQLite file."""

import os
import shlex
from pathlib import Path

from costmodel.arguments import check_text
from costmodel.databases import SQLITE_ENDINGS, parse_database
from costmodel.errors import CostModelError
from costmodel.printable import mask_secrets

DEFAULT_URI = "sqlite:///out/mlflow.db"
# The first that is set counts; the second is MLflow's own.
_VARIABLES = ("COSTMODEL_TRACKING_URI", "MLFLOW_TRACKING_URI")
_SQLITE = "sqlite:///"
# Where `mlflow ui` answers unless told otherwise.
_LOCAL = "http://localhost:5000"
_DATABASES = (_SQLITE, "postgresql", "mysql", "mssql")


def resolve_tracking_uri(uri: str | None = None) -> str:
    """Return the given place, else that of the environment, else a SQLite file in ``out``.

    Args:
        uri: URL of a server or a database, or a file that ends in ``.db``.

    Raises:
        CostModelError: If it is none of these.
    """
    found = uri or next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), DEFAULT_URI)
    if check_text("uri", found).startswith(("http://", "https://")):
        return found
    if found.startswith(_DATABASES) or ("://" not in found and found.endswith(SQLITE_ENDINGS)):
        return parse_database(found, "A tracking URI").render_as_string(hide_password=False)
    raise CostModelError(
        "A tracking URI must be a server's URL (http://host:5000), a database's "
        "(sqlite:///out/mlflow.db, postgresql://...) or a file that ends in .db, but got "
        f"{found!r}."
    )


def sqlite_file(uri: str) -> Path | None:
    """Return the file of a SQLite URI; None for anything else."""
    return Path(parse_database(uri).database or "") if uri.startswith(_SQLITE) else None


def artifact_folder(uri: str) -> Path | None:
    """Return the folder beside a SQLite file that takes the files of runs; None where a server says where."""
    file = sqlite_file(uri)
    return file.with_name(f"{file.stem}-artifacts").resolve() if file else None


def how_to_look(uri: str, run_page: str = "") -> str:
    """Return instructions for viewing the runs in a browser.

    Args:
        uri: Where the runs are stored.
        run_page: Path of a run's page on the server. MLflow itself opens an experiment on a page for language
            models, which shows none of these runs.
    """
    if uri.startswith(("http://", "https://")):
        return f"open {mask_secrets(uri).rstrip('/')}/{run_page}"
    # Its server has telemetry of its own.
    serve = f"MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {shlex.quote(mask_secrets(uri))}"
    return f"{serve}, then open {_LOCAL}/{run_page}"
