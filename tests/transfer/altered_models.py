"""Alter model files at random, load and use each: ``python altered_models.py FILE --count 100``.

Prints of each file how many alterations were refused and how many harmless, and how many escaped: by an error
that is not the package's, a refusal of several lines, or numbers that are not finite. Run it in a process of
its own, which such a file may end.
"""

import argparse
import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.errors import CostModelError
from costmodel.testing import contract_rows
from costmodel.transfer import load_model

_STRANGE = [-1, 0, 1, 2, 7, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, 1e300, -1e300, 1e-300, float("nan")]
_STRANGE += [float("inf"), float("-inf"), None, True, "", "x", [], {}, [1], {"a": 1}, "1", [-1, 99]]


def altered(members: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """One member changed: some bytes of it, some values of an array, or a value of the document."""
    name = str(rng.choice(sorted(members)))
    content = members[name]
    change: Callable[[bytes, np.random.Generator], bytes] = _bytes_changed
    if name.endswith(".json"):
        change = _value_changed
    elif name.endswith(".npy") and rng.random() < 0.7:
        change = _numbers_changed
    return members | {name: change(content, rng)}


def outcomes(path: Path, count: int, seed: int) -> Iterator[str]:
    """What came of each alteration: refused, fine, or how it escaped."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    file = path.with_suffix(".altered")
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in altered(members, rng).items():
                archive.writestr(name, content)
        yield _outcome(file, i)


def _outcome(file: Path, i: int) -> str:
    X, y, _ = contract_rows()
    try:
        model = load_model(file)
        values = model.predictions(X)
        measured = np.where(np.isfinite(y[:5]), y[:5], 1.0)
        model.model.adapt(X[:5], measured).predict(X)
    except CostModelError as error:
        return "refused" if "\n" not in str(error) else f"{i}: refused in several lines: {error}"
    except Exception as error:  # noqa: BLE001 (that is what is looked for)
        return f"{i}: {type(error).__name__}: {error}"
    # An interval that nothing vouches for is NaN.
    strange = [name for name, each in values.items() if np.isinf(each).any()]
    strange += [name for name in ("rank_score", "latency_s") if np.isnan(values.get(name, 0.0)).any()]
    return f"{i}: {strange} not finite" if strange else "fine"


def _bytes_changed(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    start, count = int(rng.integers(len(changed))), int(rng.choice([1, 1, 2, 8, 400]))
    for at in range(start, min(start + count, len(changed)), int(rng.choice([1, 7]))):
        changed[at] = int(rng.choice([0, 1, 127, 128, 255, changed[at] ^ (1 << int(rng.integers(8)))]))
    if rng.random() < 0.1:
        return bytes(changed[:start])
    return bytes(changed)


def _numbers_changed(content: bytes, rng: np.random.Generator) -> bytes:
    values = np.load(BytesIO(content)).copy()
    if rng.random() < 0.2:
        values = values[: int(rng.integers(len(values)))] if values.ndim and len(values) else values[None]
    elif values.size:
        for at in rng.integers(values.size, size=int(rng.choice([1, 3, 50]))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                strange = [each for each in _STRANGE if isinstance(each, int | float)]
                values.flat[at] = np.array(strange[rng.integers(len(strange))]).astype(values.dtype)
    buffer = BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def _value_changed(content: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.2:
        return _bytes_changed(content, rng)
    document = json.loads(content)
    leaves = [each for part in ("model", "state") for each in _leaves(document[part])]
    holder, key = leaves[rng.integers(len(leaves))]
    holder[key] = _STRANGE[rng.integers(len(_STRANGE))]
    return json.dumps(document).encode()


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document that holds a value, with its holder."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in places:
        yield value, key
        yield from _leaves(each)


def main() -> None:
    """Alter the files that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for path in options.files:
        found = {"refused": 0, "fine": 0}
        for outcome in outcomes(path, options.count, options.seed):
            found[outcome] = found.get(outcome, 0) + 1
        escaped = {outcome for outcome in found if outcome not in ("refused", "fine")}
        print(path.name, found["refused"], found["fine"], len(escaped), flush=True)
        for outcome in sorted(escaped):
            print(" ", outcome[:300], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
