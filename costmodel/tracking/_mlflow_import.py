"""MLflow, imported in this one place: without telemetry, and only when runs are tracked."""

import logging
import os
from typing import Any

from costmodel.errors import MissingExtraError


def import_mlflow() -> Any:
    """The package.

    Raises:
        MissingExtraError: It is not installed.
    """
    # Nothing of a run leaves this machine but to the server that was named; read when it is imported.
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    # Its own seven retries take four minutes to say that a server is not there, three take a quarter of one.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    # The command says itself where to look, once.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    try:
        import mlflow
    except ImportError as error:
        raise MissingExtraError("Tracking", "mlflow") from error
    # Its news of tables that it creates and of environment variables that it saw are none for the user.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    return mlflow
