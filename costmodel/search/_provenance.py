"""Where an answer came from."""

import platform as python_platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from costmodel.records._identity import content_id
from costmodel.version import __version__


def _versions() -> dict[str, str]:
    """Versions of what computes the answer."""
    packages = {name: version(name) for name in ("numpy", "optuna")}
    return {"costmodel": __version__, "python": python_platform.python_version(), **packages}


@dataclass(frozen=True)
class Provenance:
    """Where an answer came from.

    Attributes:
        runner: Description of the runner, in a sentence.
        knowledge: Description of the model and its training data, such as its name and the dataset's hash.
        space_id: Content address of the space and the platform.
        n_screened: Number of screened configs: all of a small space, 0 if the sampler screens nothing.
        n_measurements: Number of measured candidates.
        versions: Versions of the software here; those of the measuring platform are in ``Platform``.
    """

    runner: str
    knowledge: Mapping[str, str]
    space_id: str
    n_screened: int
    n_measurements: int
    versions: Mapping[str, str] = field(default_factory=_versions)

    @classmethod
    def joined(cls, parts: Mapping[str, "Provenance"]) -> "Provenance":
        """That of several searches together; what is known is told by the name of each."""
        first = next(iter(parts.values()))
        knowledge = {
            f"{name} {fact}": value for name, part in parts.items() for fact, value in part.knowledge.items()
        }
        return cls(
            first.runner,
            knowledge,
            content_id(*(part.space_id for part in parts.values())),
            sum(part.n_screened for part in parts.values()),
            sum(part.n_measurements for part in parts.values()),
        )
