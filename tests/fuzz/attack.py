"""A standing attack: altered files of every kind, special files, odd names, Ctrl-C and kills.

Each input must end in success or in a refusal of one sentence: with no traceback, no end of the process, in
20 s and 2 GB. Inputs follow from a seed: ``--seed 7 --only 123`` makes the 123rd input of seed 7 again.

    python tests/fuzz/attack.py --seconds 60
"""

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.alterations import SWELLING, alter, make_special, odd_name, swell
from fuzz.containers import alter_inside, reseal
from fuzz.corpus import Target, write_corpus
from fuzz.harness import CALLS, Verdict, load_modules, load_package, run, run_together

from costmodel.dataset.table._files import SUMS_NAME, hash_file

# Of a hundred inputs, how many are no altered file.
_SPECIAL, _ODD_NAMES, _ODD_OUTPUTS, _SIGNALS = 4, 3, 2, 6
_MOST_SHOWN = 20
# Inputs whose commands run in one process, until one of them does not hold.
_TOGETHER = 8
_WRITTEN_IN_PLACE = (".db", ".jsonl", ".lock", ".log")


def main() -> None:
    """Attack for a time, print the counts, and exit with 1 if anything escaped."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", type=int, help="number of the one input to make")
    parser.add_argument("--keep", type=Path, help="folder for the files of escapes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        corpus = Path(name) / "corpus"
        corpus.mkdir()
        os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200", "COSTMODEL_MODELS": f"{name}/models"}
        load_package()
        attack = Attack(asked.seed, corpus, write_corpus(corpus), asked.keep)
        _check_valid(attack)
        if asked.only is not None:
            made = attack.make(asked.only)
            shutil.rmtree(made.folder)
            verdict = attack.one(asked.only)
            print(json.dumps(made.told(verdict), indent=1), verdict.said, sep="\n")
            sys.exit(bool(verdict.fault))
        before = _contents(corpus)
        results = _results(attack, asked.seconds, asked.workers)
        if _contents(corpus) != before:
            sys.exit(
                "A command wrote into a file of the corpus, which others share: copy it in _copy_or_link."
            )
        sys.exit(_report(results))


def _contents(folder: Path) -> dict[Path, str]:
    return {path: hash_file(path) for path in folder.rglob("*") if path.is_file()}


def _results(attack: "Attack", seconds: float, workers: int) -> list[dict[str, Any]]:
    """Attack in several processes for a time; what became of each input."""
    fork = multiprocessing.get_context("fork")
    found, deadline = fork.Queue(), time.monotonic() + seconds
    attacks = [
        fork.Process(
            target=attack.until, args=(deadline, range(_TOGETHER * at, 2**62, _TOGETHER * workers), found)
        )
        for at in range(workers)
    ]
    for each in attacks:
        each.start()
    results: list[dict[str, Any]] = []
    shown = 0
    while any(each.is_alive() for each in attacks) or not found.empty():
        while not found.empty():
            results.append(found.get())
            if results[-1]["fault"] and (shown := shown + 1) <= _MOST_SHOWN:
                _show(results[-1], attack.seed)
        time.sleep(0.1)
    if failed := sum(bool(each.exitcode) for each in attacks):
        print(
            f"\n{failed} of {workers} processes of the attack failed themselves: see above.", file=sys.stderr
        )
    return results


@dataclass(frozen=True)
class Attack:
    """What all inputs of a seed share.

    Attributes:
        seed: The seed.
        corpus: Folder of valid files.
        targets: Which of them are altered, and the commands that read them.
        keep: Folder for the files of escapes; None not to keep them.
    """

    seed: int
    corpus: Path
    targets: tuple[Target, ...]
    keep: Path | None

    def until(self, deadline: float, firsts: range, found: Any) -> None:
        """Make inputs until a moment, some from each of these numbers on, and queue what became of them."""
        for first in firsts:
            if time.monotonic() > deadline:
                return
            inputs = [self.make(number) for number in range(first, first + _TOGETHER)]
            quiet = [each for each in inputs if each.after_s is None]
            verdicts = run_together([(each.arguments, each.folder) for each in quiet])
            held = {each.number: verdict for each, verdict in zip(quiet, verdicts, strict=True) if verdict}
            for each in inputs:
                shutil.rmtree(each.folder)
                verdict = held.get(each.number) or self.one(each.number)
                found.put(each.told(verdict))

    def make(self, number: int) -> "Input":
        """Make an input, the same whenever this number is asked for."""
        rng = random.Random(f"{self.seed} {number}")
        target = rng.choice(self.targets)
        folder = self.corpus.with_name(f"input-{number}")
        shutil.copytree(self.corpus, folder, copy_function=_copy_or_link)
        shutil.copyfile(self.corpus / target.file, _emptied(folder / target.file))
        arguments, after_s, signal_ = list(target.arguments), None, signal.SIGINT
        draw = rng.randrange(100)
        if draw < _SPECIAL:
            done = make_special(folder / target.file, rng)
        elif draw < _SPECIAL + _ODD_NAMES:
            done, arguments[rng.randrange(1, len(arguments))] = "odd name", odd_name(rng)
        elif draw < _SPECIAL + _ODD_NAMES + _ODD_OUTPUTS and target.arguments[0] not in CALLS:
            done = f"output to a {make_special(folder / 'odd.json', rng, waits=False)}"
            arguments += ["--json", "odd.json"]
        elif draw < _SPECIAL + _ODD_NAMES + _ODD_OUTPUTS + _SIGNALS and target.arguments[0] not in CALLS:
            after_s, signal_ = rng.random() * 0.5, rng.choice((signal.SIGINT, signal.SIGINT, signal.SIGKILL))
            done = signal_.name
        else:
            done = _alter_file(folder / target.file, rng)
        return Input(number, target.file, arguments, folder, done, after_s, signal_)

    def one(self, number: int) -> Verdict:
        """Make an input, and run its command in a process of its own."""
        made = self.make(number)
        verdict = run(made.arguments, made.folder, after_s=made.after_s, signal_=made.signal)
        if made.done == "SIGKILL" and not verdict.fault:  # what is left must not harm who comes next
            verdict = run(made.arguments, made.folder)
        if verdict.fault and self.keep:
            shutil.copytree(made.folder, self.keep / str(number), symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(made.folder)
        return verdict


@dataclass(frozen=True)
class Input:
    """A command, and the folder with files that it runs in.

    Attributes:
        number: Its number among those of the seed.
        file: The file that was altered.
        arguments: Those of the command.
        folder: Where it runs.
        done: What was done.
        after_s: Seconds until it gets a signal; None for none.
        signal: The signal.
    """

    number: int
    file: str
    arguments: list[str]
    folder: Path
    done: str
    after_s: float | None
    signal: signal.Signals

    def told(self, verdict: Verdict) -> dict[str, Any]:
        """What the input was, and what became of it."""
        return {
            "number": self.number,
            "file": self.file,
            "done": self.done,
            "arguments": [each[:200] for each in self.arguments],
            "fault": verdict.fault,
            "said": verdict.said,
            "refused": verdict.is_refusal,
        }


def _copy_or_link(source: str, target: str) -> None:
    """Copy a file that commands write in place; a link is quicker, and as good for what they replace."""
    (shutil.copyfile if Path(source).suffix in _WRITTEN_IN_PLACE else os.link)(source, target)


def _emptied(path: Path) -> Path:
    """The path, where nothing is any more."""
    path.unlink()
    return path


def _alter_file(file: Path, rng: random.Random) -> str:
    """Alter a file, or what it holds; what was done."""
    done: list[str] = []

    def altered(content: bytes) -> bytes:
        what, content = alter(content, rng)
        done.append(what)
        return content

    if rng.randrange(SWELLING) == 0:
        done.append("swell")
        file.write_bytes(swell(file.read_bytes(), rng))
    elif rng.randrange(2) or not alter_inside(file, altered, rng):
        file.write_bytes(altered(file.read_bytes()))
    if file.name != SUMS_NAME and rng.randrange(4):
        reseal(file)
    return "+".join(done) or "retype"


def _check_valid(attack: Attack) -> None:
    """Check that each command accepts its valid file: to attack what is refused anyhow tells nothing.

    What a command imports is imported here too, so that those that follow need not.
    """
    imported, wrong = attack.corpus.with_name("imported"), []
    for target in attack.targets:
        copy = attack.corpus.with_name("valid")
        shutil.copytree(attack.corpus, copy)
        verdict = run(target.arguments, copy, imported=imported)
        is_there = (attack.corpus / target.file).is_file()
        if verdict.fault or verdict.is_refusal is not target.is_refused or not is_there:
            wrong.append(f"{target}: a valid file is answered wrongly: {verdict.fault}\n{verdict.said}")
        shutil.rmtree(copy)
    if wrong:
        sys.exit("\n".join(wrong))
    load_modules(imported.read_text().split())


def _show(escape: dict[str, Any], seed: int) -> None:
    what = f"{escape['fault']} ({escape['done']} of {escape['file']})"
    print(f"\n--seed {seed} --only {escape['number']}: {what}")
    print(" ".join(["costmodel", *escape["arguments"]]), escape["said"][-1500:], sep="\n", flush=True)


def _report(results: list[dict[str, Any]]) -> int:
    escapes = Counter(each["file"] for each in results if each["fault"])
    refused = sum(each["refused"] for each in results)
    counts = f"{len(results):,} inputs, {refused:,} refused in a sentence, {escapes.total()} escaped"
    print(f"\n{counts} {dict(escapes) or ''}")
    return bool(escapes)


if __name__ == "__main__":
    main()
