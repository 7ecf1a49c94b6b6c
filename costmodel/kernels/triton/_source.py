"""Families of Triton kernels as a kernel source."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels._artifact import Built
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.family._source import FamilySource, load_module
from costmodel.kernels.triton._build import build_triton_family, read_triton_family
from costmodel.kernels.triton._family import TritonFamily
from costmodel.reading import is_file, is_folder, read_text
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind

_FILE, _ONE, _SEVERAL = "family.py", "FAMILY", "FAMILIES"
SHIPPED = Path(__file__).parent / "families"


def load_families(place: str) -> Sequence[TritonFamily]:
    """Return the families of a file, which is run.

    Args:
        place: ``kernel.py``, which defines FAMILY or FAMILIES; ``kernel.py:name`` for one under another name;
            or a folder with ``family.py``.

    Raises:
        CostModelError: There is no such file, it fails, or it defines no families.
    """
    path, _, name = place.partition(".py:")
    file = Path(f"{path}.py" if name else place).resolve()
    return _families(file / _FILE if is_folder(file) else file, name)


def is_family_place(place: str) -> bool:
    """Tell whether a place is a folder with ``family.py``, or a file that speaks of ``TritonFamily``."""
    path, _, name = place.partition(".py:")
    file = Path(f"{path}.py" if name else place)
    if is_folder(file):
        return is_file(file / _FILE)
    return file.suffix == ".py" and is_file(file) and "TritonFamily" in read_text(file, "a Python file")


# Seconds that such a program may go on without launching a kernel that is new.
TIME_LIMIT_S = 120.0


def is_triton_program(place: str) -> bool:
    """Tell whether a place is a file of Python that may launch Triton kernels when it is run, and no family.

    It may import them. What speaks of TVM alone is no such program: its functions are named,
    ``FILE.py:NAME``.
    """
    file = Path(place)
    if file.suffix != ".py" or not is_file(file):
        return False
    text = read_text(file, "a Python file")
    return "TritonFamily" not in text and ("triton" in text or "tvm" not in text)


@cache
def _families(file: Path, name: str) -> tuple[TritonFamily, ...]:
    module = load_module(file)
    found = [getattr(module, each, None) for each in ([name] if name else [_ONE, _SEVERAL])]
    families = [f for each in found for f in (each if isinstance(each, list | tuple) else [each]) if f]
    if not families or not all(isinstance(family, TritonFamily) for family in families):
        wanted = name or f"{_ONE} or {_SEVERAL}"
        raise CostModelError(f"{file} must define {wanted}, one TritonFamily or a list of them.")
    if not all(choices for family in families for choices in family.parameters.values()):
        from costmodel.kernels.triton.proposing._open_family import fill_choices  # loads Triton

        families = list(map(fill_choices, families))
    return tuple(families)


class TritonSource(FamilySource):
    """Triton kernels with declared parameters: families of one's own, then those that ship.

    Choosing among them needs no Triton, building them does; neither needs a GPU.

    Args:
        places: Files that define FAMILY or FAMILIES, ``file.py:name``, or folders with ``family.py``.
    """

    name = "triton"
    modules = ("triton",)

    @classmethod
    def at(cls, place: str) -> Sequence[TritonFamily]:
        """Return the families of a file."""
        return load_families(place)

    @classmethod
    def shipped(cls) -> Sequence[TritonFamily]:
        """Return the families in ``families``."""
        return _shipped()

    @staticmethod
    def compile(family: TritonFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
        """Compile a candidate with Triton."""
        return build_triton_family(family, candidate, architecture, folder)

    def read(
        self, candidate: Candidate, kind: TargetKind, architecture: str, cache: Path | None = None
    ) -> Reading:
        """Read a candidate's facts in Triton's IR.

        Where the family was changed since, the kernel is read as it is now, if it still has the config.
        """
        try:
            family = self.family_of(candidate)
            return read_triton_family(family, candidate, architecture, cache)
        except Exception as error:  # noqa: BLE001 (of a user's file: the kernel stays unread)
            return Reading(note=describe_failure(error))

    def family_of(self, candidate: Candidate) -> TritonFamily:
        """Return the family of a candidate; if it was changed since, as it is now.

        Raises:
            CostModelError: There is none with the candidate's config.
        """
        named = candidate.space.rpartition("-")[0]
        families = [each for each in self.families if each.space_name.rpartition("-")[0] == named]
        for family in sorted(families, key=lambda each: each.space_name != candidate.space):
            if isinstance(family, TritonFamily) and family.has(candidate):
                return family
        raise CostModelError(f"A family with the config of {candidate.space} must be given, but none is.")

    def check_installed(self, kind: TargetKind) -> None:
        """Check for Triton."""
        try:
            import triton  # noqa: F401
        except ImportError:
            raise MissingExtraError("Building Triton kernels", "triton") from None

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """Return the version of Triton."""
        import triton

        return {"triton": triton.__version__}

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Load Triton's compiler."""
        self.check_installed(kind)


@cache
def _shipped() -> tuple[TritonFamily, ...]:
    folders = sorted(file.parent for file in SHIPPED.glob("*/family.py"))
    return tuple(family for folder in folders for family in load_families(str(folder)))
