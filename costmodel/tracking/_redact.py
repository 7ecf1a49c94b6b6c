"""Secrets in URLs, which must not be kept with a run."""

import re

_HIDDEN = "***"
# The part before the host, up to its last @: user:password.
_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):[^/\s]*@")
_NAMES = "password|passwd|pwd|token|secret|api_?key|sslpassword"
_QUERY = re.compile(rf"([?&](?:{_NAMES})=)[^&\s'\"]*", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with passwords of URLs, and secrets in their queries, as ``***``.

    Example:
        >>> redacted("--study postgresql://me:secret@host/name")
        '--study postgresql://me:***@host/name'
    """
    return _QUERY.sub(rf"\1{_HIDDEN}", _PASSWORD.sub(rf"\1:{_HIDDEN}@", text))
