"""Judge choice models on best configs of fused MoE kernels, each GPU left out."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded, say
from options import parse_options

from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._source import ChosenConfig
from costmodel.errors import CostModelError
from costmodel.files import write_json
from costmodel.records._candidate import Decision
from costmodel.transfer._choices import ChoiceModel

TILE = ("BLOCK_SIZE_K", "BLOCK_SIZE_M", "BLOCK_SIZE_N")
MOST = 10
Ranking = list[dict[str, Decision]]
# A rule ranks parameters (all if none are named) for a choice that it does not know, from others.
Rule = Callable[[ChosenConfig, Sequence[str]], Ranking]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of files that vLLM and SGLang ship, in any depth")
    parser.add_argument("--each", type=int, help="choices of each GPU that are asked for")
    parser.add_argument("--least", type=int, help="choices that a GPU must have to be left out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the results are written")
    args = parse_options(parser, __file__, argv)
    choices = [each for file in sorted(args.folder.rglob("*.json")) for each in _read(file)]
    say(f"{len(choices):,} choices")
    found = []
    for left_out, twins in _left_out(choices, args.least):
        for name, ranks in _judge(choices, left_out, args.each, twins).items():
            found.append({"left out": left_out, "method": name, **ranks})
            say(str(found[-1]))
    if args.out:
        write_json(args.out, [{k: rounded(v) for k, v in row.items()} for row in found])
    columns = ("tile first", "tile among 3", "config first", "config among 10")
    rows = [[f"{each['left out']}, {each['method']}", *(f"{each[c]:.0%}" for c in columns)] for each in found]
    print(markdown_table(["left out, method", *columns], rows))


def _read(file: Path) -> Sequence[ChosenConfig]:
    try:
        return read_source(file).choices
    except CostModelError as error:
        say(str(error))
        return ()


def _left_out(choices: Sequence[ChosenConfig], least: int) -> Iterator[tuple[str, bool]]:
    """Yield each GPU with choices enough, then each architecture with all of its GPUs."""
    names = [each.platform.device.name for each in choices]
    architectures = [each.platform.device.architecture for each in choices]
    for every, twins in ((names, False), (architectures, True)):
        yield from ((name, twins) for name in sorted(set(every) - {""}) if every.count(name) >= least)


def _judge(
    choices: Sequence[ChosenConfig], left_out: str, each: int, twins: bool
) -> dict[str, dict[str, float]]:
    of = [choice.platform.device.architecture if twins else choice.platform.device.name for choice in choices]
    known = [choice for choice, name in zip(choices, of, strict=True) if name != left_out]
    asked = [choice for choice, name in zip(choices, of, strict=True) if name == left_out]
    drawn = np.random.default_rng(0).choice(len(asked), min(each, len(asked)), replace=False)
    rules: dict[str, Rule] = {
        "model": _model(known),
        "nearest shape": _nearest(known),
        "most often": _often(known),
    }
    ranks: dict[str, dict[str, float]] = {}
    for name, rule in rules.items():
        tiles = [_rank(rule, asked[i], TILE) for i in drawn]
        configs = [_rank(rule, asked[i], ()) for i in drawn]
        ranks[name] = {
            "tile first": float(np.mean([rank < 1 for rank in tiles])),
            "tile among 3": float(np.mean([rank < 3 for rank in tiles])),
            "config first": float(np.mean([rank < 1 for rank in configs])),
            "config among 10": float(np.mean([rank < MOST for rank in configs])),
            "asked": float(len(drawn)),
        }
    return ranks


def _rank(rule: Rule, choice: ChosenConfig, names: Sequence[str]) -> int:
    """Place of what the expert chose, from 0; ``MOST`` if it is not among as many."""
    decisions = choice.candidate.config.decisions
    wanted = {name: decisions[name] for name in names if name in decisions} if names else decisions
    found = rule(choice, names)
    return found.index(wanted) if wanted in found else MOST


def _model(known: Sequence[ChosenConfig]) -> Rule:
    model = ChoiceModel().fit(known)
    return lambda choice, names: [
        each.decisions for each in model.rank(choice.candidate.workload, choice.platform.device, MOST, names)
    ]


def _nearest(known: Sequence[ChosenConfig]) -> Rule:
    """What was chosen for the nearest sizes, of the same types if there are any, wherever it was."""

    def rule(choice: ChosenConfig, names: Sequence[str]) -> Ranking:
        dims, kind = choice.candidate.workload.dims, choice.candidate.workload.kind

        def far(other: ChosenConfig) -> tuple[bool, float]:
            theirs = other.candidate.workload.dims
            apart = sum(abs(np.log2(theirs.get(name, 1) / size)) for name, size in dims.items())
            return other.candidate.workload.kind != kind, apart

        return _distinct(sorted(known, key=far)[: 5 * MOST], names)

    return rule


def _often(known: Sequence[ChosenConfig]) -> Rule:
    """What was chosen most often."""

    def rule(choice: ChosenConfig, names: Sequence[str]) -> Ranking:
        counts: dict[str, tuple[int, dict[str, Decision]]] = {}
        for each in known:
            taken = _part(each, names)
            counts[str(taken)] = (counts.get(str(taken), (0, taken))[0] + 1, taken)
        return [taken for _, taken in sorted(counts.values(), key=lambda pair: -pair[0])[:MOST]]

    return rule


def _distinct(choices: Sequence[ChosenConfig], names: Sequence[str]) -> Ranking:
    found: Ranking = []
    for each in choices:
        if (taken := _part(each, names)) not in found:
            found.append(taken)
    return found[:MOST]


def _part(choice: ChosenConfig, names: Sequence[str]) -> dict[str, Decision]:
    decisions = choice.candidate.config.decisions
    return {name: value for name, value in sorted(decisions.items()) if not names or name in names}


if __name__ == "__main__":
    main()
