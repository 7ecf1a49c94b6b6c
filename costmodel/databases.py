"""Databases that users name by URL."""


def database_url(url: str) -> str:
    """The URL of a database, with the driver that the extra ``postgresql`` brings where none is named.

    SQLAlchemy takes psycopg2 up to 2.0, and another one from 2.1 on.

    Example:
        >>> database_url("postgresql://host/name")
        'postgresql+psycopg2://host/name'
    """
    scheme, _, rest = url.partition("://")
    return f"postgresql+psycopg2://{rest}" if scheme == "postgresql" else url
