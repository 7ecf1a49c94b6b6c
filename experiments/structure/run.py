"""How is the code laid out: folders, lengths, public names, private imports of tests? See README.md."""

import argparse
import ast
import io
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

ROOT = Path(__file__).parents[2]
# Source by path from the root of the repository, such as ``costmodel/files.py``.
Sources = Mapping[PurePosixPath, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGE, TESTS = "costmodel", "tests"
# More files than this in one folder are hard to overlook, more lines than that in one function hard to read.
MOST_FILES, LONG_FUNCTION = 20, 25


def main() -> None:
    options = parse()
    found = measure(read(options.revision))
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value:>8,}")
    if options.json:
        options.json.write_text(json.dumps({"revision": options.revision, **found}, indent=1) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revision", help="commit to count; empty for the files as they are")
    parser.add_argument("--json", type=Path, help="where to write the counts")
    return parse_options(parser, __file__, argv)


def read(revision: str) -> Sources:
    """The Python files of the package and of its tests."""
    if not revision:
        paths = (path for folder in (PACKAGE, TESTS) for path in sorted((ROOT / folder).rglob("*.py")))
        return {PurePosixPath(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    command = ["git", "-C", str(ROOT), "archive", revision, PACKAGE, TESTS]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {PurePosixPath(m.name): archive.extractfile(m) for m in archive if m.name.endswith(".py")}
        return {path: file.read().decode() for path, file in files.items() if file}


def measure(sources: Sources) -> dict[str, int]:
    """Counts by what is counted."""
    package = {path: source for path, source in sources.items() if path.parts[0] == PACKAGE}
    tests = {path: source for path, source in sources.items() if path.parts[0] == TESTS}
    private = [name for source in tests.values() for name in private_imports(ast.parse(source))]
    return {
        **file_counts(package),
        **function_counts(package),
        **name_counts(package),
        "private names that tests import, distinct": len(set(private)),
        "private names that tests import": len(private),
    }


def file_counts(package: Sources) -> dict[str, int]:
    """Files and lines, in all, by folder, and of two packages."""
    lines = {path: len(source.splitlines()) for path, source in package.items()}
    folders = Counter(path.parent for path in package)
    middle, most = np.quantile(list(lines.values()), (0.5, 0.9))
    return {
        "files": len(lines),
        "lines": sum(lines.values()),
        "lines of a file, median": round(middle),
        "lines of a file, 90th percentile": round(most),
        "lines of the longest file": max(lines.values()),
        "folders": len(folders),
        "files in the widest folder": max(folders.values()),
        f"folders of more than {MOST_FILES} files": sum(count > MOST_FILES for count in folders.values()),
        **{
            f"lines of {name}/": sum(count for path, count in lines.items() if path.parts[1] == name)
            for name in ("search", "cli")
        },
    }


def function_counts(package: Sources) -> dict[str, int]:
    """Lengths of functions: lines of their body without the docstring."""
    lengths = [
        length(node)
        for source in package.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Function)
    ]
    middle, most = np.quantile(lengths, (0.5, 0.9))
    return {
        "functions": len(lengths),
        "lines of a function, median": round(middle),
        "lines of a function, 90th percentile": round(most),
        "lines of the longest function": max(lengths),
        f"functions of more than {LONG_FUNCTION} lines": sum(count > LONG_FUNCTION for count in lengths),
    }


def name_counts(package: Sources) -> dict[str, int]:
    """Public names: of the top level, of its packages, of packages in these."""
    counts = Counter[int]()
    for path, source in package.items():
        if path.name == "__init__.py" and not any(part.startswith("_") for part in path.parts[:-1]):
            counts[min(len(path.parts) - 2, 2)] += len(set(public_names(ast.parse(source))))
    return {
        "public names of the top level": counts[0],
        "public names of its packages": counts[1],
        "public names of packages in these": counts[2],
    }


def length(function: Function) -> int:
    """Lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def public_names(module: ast.Module) -> Iterator[str]:
    """Names in ``__all__``; where that is made of others, those that type checkers are told of."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and "__all__" in map(ast.unparse, node.targets):
            yield from (item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname == alias.name)


def private_imports(module: ast.Module) -> Iterator[str]:
    """Names that a test takes from private modules of the package: imported, or named in a text to patch."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.Constant) and str(node.value).startswith(f"{PACKAGE}."):
            names = iter([str(node.value)])
        else:
            continue
        yield from (name for name in names if is_private(name))


def is_private(name: str) -> bool:
    """Whether a part of a dotted name begins with one underscore."""
    parts = name.split(".")
    return all(part.isidentifier() for part in parts) and any(
        part.startswith("_") and not part.startswith("__") for part in parts
    )


if __name__ == "__main__":
    main()
