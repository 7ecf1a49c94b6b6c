"""Text that may be shown or kept: without secrets, and without characters that steer a terminal.

Messages of errors, what the command line prints and logs, progress, and what is tracked pass through here.
"""

import re
import unicodedata
from urllib.parse import unquote_plus

HIDDEN = "***"
# A password after a scheme, misspelt ones too, and a user: `postgres:/me:secret@host`. It holds anything but
# whitespace, so the last @ of the word ends it; whitespace too, if it is no port with a sentence behind it.
_PASSWORD = re.compile(r"(?P<user>(?:(?<![\w+.-])[\w+.-]*:)?/+[^\s:/@]*):\S*@")
_SPACED_PASSWORD = re.compile(r"(?P<user>://[^\s:/@[]*):(?!\d+(?!\w))[^\s@'\"]+\s[^@\n'\"]*@")
# One before an address without slashes: `me:secret@host/name`, `postgresql:me:secret@host`.
_BARE_PASSWORD = re.compile(r"(?P<user>(?<![\w+.@/-])[^\s:/@'\"]+):(?!/)\S*(?::\S*@|@(?=\S*[./:]|localhost))")
# A setting of a URL's query, or of a connection in words: `password=secret host=here`.
_SETTING = re.compile(
    r"""(?P<before> ^ | [?&;\s'"(]) (?P<name> [\w%.+-]+) = (?P<value> [^&\s]*?)
        (?= []})'",.:;]* (?: [&\s] | $))""",
    re.VERBOSE,
)
_SECRET = re.compile(
    r".*(password|passwd|passphrase|pwd|secret|credentials?)|(.*[_-])?token|sig"
    r"|.*(api|access|secret|private|account|shared)[_-]?key"
)


def mask_secrets(text: str) -> str:
    """Replace passwords of URLs, and secrets among the settings of a connection, by ``***``.

    Example:
        >>> mask_secrets("--study postgresql://me:secret@host/name?sslpassword=secret&x=1")
        '--study postgresql://me:***@host/name?sslpassword=***&x=1'
    """
    if "@" in text:
        for pattern in (_PASSWORD, _SPACED_PASSWORD, _BARE_PASSWORD):
            text = pattern.sub(rf"\g<user>:{HIDDEN}@", text)
    return _SETTING.sub(_mask_setting, text) if "=" in text else text


def is_secret(name: str) -> bool:
    """Tell whether a setting of this name holds a secret.

    Example:
        >>> is_secret("SSLPassword"), is_secret("tokens")
        (True, False)
    """
    return _SECRET.fullmatch(unquote_plus(name).lower()) is not None


def make_printable(text: str, *, keep_lines: bool = False) -> str:
    r"""Mask secrets, and write control characters, those of writing direction too, as Python escapes them.

    Args:
        text: Text that may come from anyone.
        keep_lines: Keep line breaks. By default they are escaped too, so that a name cannot pass for a line.

    Example:
        >>> make_printable("a\x1b[31mb")
        'a\\x1b[31mb'
    """
    masked = mask_secrets(text)
    if masked.isprintable():
        return masked
    return "".join(each if each == "\n" and keep_lines else _escape(each) for each in masked)


def _mask_setting(setting: re.Match[str]) -> str:
    if not setting["value"] or not is_secret(setting["name"]):
        return setting[0]
    return f"{setting['before']}{setting['name']}={HIDDEN}"


def _escape(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
