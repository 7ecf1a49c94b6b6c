"""Origin of an entry of a foreign file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from costmodel.dataset.importers._source import Reject
from costmodel.dataset.table._files import sha256_of
from costmodel.errors import CostModelError

_LONGEST = 4096  # characters of an entry that a reject shows


@dataclass(frozen=True)
class Origin:
    """A foreign file: each row of a dataset, and each reject, can be traced to it.

    Attributes:
        name: The file's name.
        sha256: Its checksum.
    """

    name: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file's name and checksum.

        Raises:
            CostModelError: It cannot be read.
        """
        try:
            return cls(path.name, sha256_of(path))
        except OSError as error:
            raise CostModelError(f"Cannot read {path}: {error.strerror}.") from None

    @property
    def text(self) -> str:
        """The name and the beginning of the checksum, for the software versions of a platform."""
        return f"{self.name} sha256:{self.sha256[:16]}"

    def reject(self, reason: str, entry: Any, number: int | None = None) -> Reject:
        """What cannot be believed of this file.

        Args:
            reason: What must hold and does not.
            entry: What stands there; the beginning of a long one is kept.
            number: Its row or line, from 1, where entries have one.
        """
        place = {} if number is None else {"number": number}
        shown = _text(entry)[:_LONGEST].encode(errors="replace").decode()
        return Reject(reason, {"file": self.name, "sha256": self.sha256, **place, "entry": shown})


def _text(entry: Any) -> str:
    try:
        return entry if isinstance(entry, str) else json.dumps(entry, default=str)
    except RecursionError:
        return "nested too deeply to be shown"
