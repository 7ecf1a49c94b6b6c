"""Judge how often the name of a kernel alone says what it is, by rules of today or of a commit."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import ModuleType

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2] / "tests" / "planner"))

from kernel_names import KINDS, read_parts
from options import parse_options

from costmodel.files import write_json

_RULES = "costmodel/planner/graphs/_kernel_class.py"


def rules_of(commit: str, folder: Path) -> ModuleType:
    """The module of rules as a commit has it; empty is that of the working tree."""
    path = Path(_RULES)
    if commit:
        shown = subprocess.run(["git", "show", f"{commit}:{_RULES}"], check=True, capture_output=True)
        path = folder / f"rules_{commit}.py"
        path.write_bytes(shown.stdout)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    rules = module_from_spec(spec)
    spec.loader.exec_module(rules)
    return rules


def judge(rules: ModuleType, kernels: list[tuple[str, str, str | None]]) -> dict[str, int]:
    """Count names, those of the right kind, those of no kind that is known, and right precisions."""
    found = [(rules.class_of_name(name), kind, precision) for name, kind, precision in kernels]
    told = [(each, precision) for each, _, precision in found if precision is not None]
    return {
        "names": len(found),
        "kind_right": sum(each.kind.name == kind for each, kind, _ in found),
        "kind_unknown": sum(each.kind.name == "UNKNOWN" for each, _, _ in found),
        "precisions": len(told),
        "precision_right": sum(each.precision.name == precision for each, precision in told),
    }


def read_profiles() -> dict[str, list[tuple[str, str, float]]]:
    """Read the profiles of ``profiles.txt``: name, kind and percent of the time of each kernel."""
    profiles: dict[str, list[tuple[str, str, float]]] = {}
    for line in Path(__file__).with_name("profiles.txt").read_text().splitlines():
        if line.startswith("["):
            profile = profiles.setdefault(line[1 : line.index("]")], [])
        elif not line.startswith("#"):
            kind, _, percent, name = line.split(" ", 3)
            profile.append((name, KINDS[kind], float(percent)))
    return profiles


def judge_times(rules: ModuleType, kernels: list[tuple[str, str, float]]) -> dict[str, float]:
    """Shares of the listed time in kernels of the right kind, and in those of no kind that is known."""
    found = [(rules.class_of_name(name).kind.name, kind, percent) for name, kind, percent in kernels]
    listed = sum(percent for _, _, percent in found)
    return {
        "kernels": len(found),
        "right": sum(percent for told, kind, percent in found if told == kind) / listed,
        "unknown": sum(percent for told, _, percent in found if told == "UNKNOWN") / listed,
    }


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", nargs="+", help="commits whose rules are judged; '' is the working tree")
    parser.add_argument("--json", type=Path, help="file to write the counts to")
    return parse_options(parser, __file__, argv)


def main() -> None:
    """Print a row for each set of rules and part of the names."""
    options = parse()
    parts = read_parts()
    with TemporaryDirectory() as folder:
        rules = {commit or "now": rules_of(commit, Path(folder)) for commit in options.rules}
    result = {
        commit: {part: judge(each, kernels) for part, kernels in parts.items()}
        for commit, each in rules.items()
    }
    for commit, counts in result.items():
        for part, count in counts.items():
            print(
                f"{commit:>9} {part:>10}: {count['kind_right']} of {count['names']} kinds right, "
                f"{count['kind_unknown']} unknown; {count['precision_right']} of {count['precisions']} "
                "precisions right"
            )
    profiles = read_profiles()
    times = {
        commit: {profile: judge_times(each, kernels) for profile, kernels in profiles.items()}
        for commit, each in rules.items()
    }
    for commit, shares in times.items():
        right = [share["right"] for share in shares.values()]
        print(f"{commit:>9}: of the time of {len(right)} profiles {fmean(right):.1%} told right, on average")
        print("\n".join(f"{share['right']:>19.1%} {profile}" for profile, share in shares.items()))
    if options.json:
        write_json(options.json, {"names": result, "times": times})


if __name__ == "__main__":
    main()
