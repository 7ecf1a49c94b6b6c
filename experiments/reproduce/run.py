"""Make the figures of the project's README again, and compare them with it. See README.md here."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from figures import Compared, Figures, Step, compared, load, read, table, uncompared
from options import parse_options
from pages import PageCheck, check_pages
from release import Made, ancestors, find_commit, write_page
from steps import ROOT, Done, Runner, looks_alike

# Why a step was not run, by whether it needs caches.
SKIPPED = {True: "needs --caches", False: "does not fit in --within"}


def main() -> None:
    options = parse()
    figures = load()
    if options.list:
        print(listed(figures))
        return
    wanted = chosen(figures, options.only)
    commit = find_commit(options.release) if options.release else ""
    runner = Runner((options.out / commit).resolve(), options.caches and options.caches.resolve())
    able = [step for step in wanted if runner.caches or not step.needs_caches]
    done = {each.step: each for each in runner.all(able, options.processes, options.within)}
    rows = [*compare(figures, wanted, runner, done), *compare_pictures(able, runner)]
    pages = check_pages() if options.release or not options.only else ()
    print(table(rows))
    print(table_of_pages(pages))
    print(costs(done))
    for each in done.values():
        if each.failed:
            print(f"\n{each.step} failed: {' '.join(each.command)}\n{each.failed}")
    if options.json:
        document = {"figures": rows, "pages": pages, "steps": list(done.values())}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    if options.release:
        done |= {step.name: kept for step in figures.steps if (kept := runner.before(step))}
        ready = [step for step in figures.steps if step.name in done]
        rows = [*compare(figures, ready, runner, done), *compare_pictures(ready, runner)]
        if find_commit(options.release) != commit:
            sys.exit(f"Another commit than {commit} is checked out by now: no page was written.")
        earlier = compare_earlier(figures, runner, done, options.out)
        page = write_page(figures, Made(commit, done, rows, earlier), pages)
        options.release.write_text(page, encoding="utf-8")
    failed = any(row.status.startswith(("no", "failed")) for row in rows)
    sys.exit(int(failed or any(page.differ for page in pages)))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="STEP", help="again for more (default: all)")
    parser.add_argument("--list", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--caches", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--out", type=Path, help="folder of results; what is there is not made again")
    parser.add_argument("--processes", type=int, help="steps at once")
    parser.add_argument("--within", type=float, metavar="MINUTES", help="start the short ones that fit")
    parser.add_argument("--json", type=Path, help="where to write the comparison")
    parser.add_argument("--release", type=Path, help="page to write on all that was done at this commit")
    return parse_options(parser, __file__, argv)


def listed(figures: Figures) -> str:
    """Each step, what it takes and what it makes."""
    lines = []
    for step in figures.steps:
        lines.append(f"{step.name}: {step.minutes:g} min. {' '.join(step.command)}")
        lines += [f"  {step.note}"] if step.note else []
        for figure in figures.figures:
            if figure.step == step.name:
                widest = max(figure.tolerances)
                allowed = f", +- {widest:g} at most: {figure.reason}" if widest else ""
                lines.append(f"  - {figure.name}: {', '.join(figure.printed)}{allowed}")
    alone = [figure for figure in figures.figures if not figure.step]
    lines += ["not made here:", *(f"  - {f.name}: {', '.join(f.printed)} ({f.reason})" for f in alone)]
    minutes = sum(step.minutes for step in figures.steps if not step.needs_caches)
    return "\n".join([*lines, f"in all {minutes:.0f} min of one core, without those that need --caches"])


def chosen(figures: Figures, only: Sequence[str] | None) -> list[Step]:
    """The steps that are asked for, with those that they come after."""
    names = [step.name for step in figures.steps]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        sys.exit(f"--only must be among {', '.join(names)}, but got {', '.join(unknown)}.")
    asked = set(only or names)
    asked |= {step.after for step in figures.steps if step.name in asked}
    return [step for step in figures.steps if step.name in asked]


def compare(
    figures: Figures, wanted: Sequence[Step], runner: Runner, done: Mapping[str, Done]
) -> list[Compared]:
    """The figures of the wanted steps; those that no step makes where all are wanted."""
    steps = {step.name: step for step in wanted}
    rows = []
    for figure in figures.figures:
        step = steps.get(figure.step)
        if step is None:
            if not figure.step and len(wanted) == len(figures.steps):
                rows.append(uncompared(figure, f"recorded: {figure.reason}"))
        elif step.name not in done:
            rows.append(uncompared(figure, f"skipped: {SKIPPED[step.needs_caches]}"))
        elif done[step.name].failed:
            rows.append(uncompared(figure, "failed"))
        else:
            row = compared(figure, read(runner.result(step)))
            rows.append(replace(row, status=f"{row.status}, recorded") if step.recorded else row)
    return rows


def compare_earlier(
    figures: Figures, runner: Runner, done: Mapping[str, Done], out: Path
) -> dict[str, tuple[str, list[Compared]]]:
    """For each step that was not run, the last commit before this one at which it was, and its figures."""
    earlier: dict[str, tuple[str, list[Compared]]] = {}
    for commit in ancestors([folder.name for folder in out.glob("*") if folder.is_dir()]):
        before = Runner((out / commit).resolve(), runner.caches)
        for step in figures.steps:
            if step.name not in {*done, *earlier} and (kept := before.before(step)):
                earlier[step.name] = (commit, compare(figures, [step], before, {step.name: kept}))
    return earlier


def compare_pictures(steps: Sequence[Step], runner: Runner) -> list[Compared]:
    """Whether each picture was drawn as it is committed."""
    rows = []
    for step in steps:
        for picture in step.pictures:
            drawn = Path(runner.filled(picture.drawn))
            committed = ROOT / picture.committed if picture.committed else None
            status = "yes" if looks_alike(drawn, committed) else "no"
            rows.append(Compared(f"picture {drawn.name}", step.name, (), (), status, picture.committed))
    return rows


def table_of_pages(pages: Sequence[PageCheck]) -> str:
    """How many rows of the tables of each experiment's page agree with the results beside it."""
    head = "| page | rows that agree | gathered | not compared | differ: lines |"
    lines = ["", head, "| --- | ---: | ---: | ---: | --- |"]
    for page in pages:
        differ = ", ".join(str(row.line) for row in page.differ)
        lines.append(
            f"| {page.page} | {page.agree} | {page.gathered} | {page.not_compared} | {differ or '-'} |"
        )
    return "\n".join(lines)


def costs(done: Mapping[str, Done]) -> str:
    """What each step took."""
    lines = ["", "| step | wall, s | processor, s |", "| --- | ---: | ---: |"]
    lines += [f"| {each.step} | {each.wall_s:.0f} | {each.cpu_s:.0f} |" for each in done.values()]
    walls, cpus = sum(each.wall_s for each in done.values()), sum(each.cpu_s for each in done.values())
    return "\n".join([*lines, f"| sum | {walls:.0f} | {cpus:.0f} |"])


if __name__ == "__main__":
    main()
