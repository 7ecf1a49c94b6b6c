"""The list of figures agrees with the documents; comparing finds what was planted; the cheapest steps run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "reproduce"


@pytest.fixture(scope="module")
def pages() -> Iterator[ModuleType]:
    """The module that compares pages of experiments with their results."""
    sys.path.insert(0, str(FOLDER))
    try:
        import pages

        yield pages
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("pages", None)


def test_every_page_of_an_experiment_says_what_its_results_hold(pages: ModuleType) -> None:
    checked = pages.check_pages()
    differ = {page.page: [row.text for row in page.differ] for page in checked if page.differ}
    assert differ == {}
    assert sum(page.agree + page.gathered for page in checked) > 650


RESULTS = {
    "summary": [
        {"model": "guarded", "share": 0.8254, "most": 1.25, "latency_s": 3.14e-5},
        {"model": "unguarded", "share": 0.8872, "most": 31.0, "latency_s": 2.7e-5},
        *({"model": f"variant {i}", "share": 0.1 + 0.001 * i, "most": 40.0 + i} for i in range(30)),
    ],
    "tasks": [{"needed": i} for i in range(100)],
}


@pytest.mark.parametrize(
    ("table", "differ"),
    [
        ("| guarded | 83 % | 1.25 |", False),
        ("| guarded | 0.825 | 31.4 us |", False),
        ("| guarded | 85 % | 1.25 |", True),  # there is an 85, but not beside 1.25
        ("| guarded | 83 % | 31.0 |", True),  # of two entries
        ("| 7 of them | 0.83 |", False),  # what it is called by is no result
    ],
)
def test_a_row_must_be_of_one_part_of_the_results(
    pages: ModuleType, tmp_path: Path, table: str, differ: bool
) -> None:
    head = "| model | share | most |\n| --- | ---: | ---: |\n"
    (tmp_path / "result.json").write_text(json.dumps(RESULTS))
    (tmp_path / "README.md").write_text(f"# Title\n\n{head}{table}\n")
    found = pages.check_page(tmp_path)
    assert (len(found.differ), found.agree) == ((1, 0) if differ else (0, 1))


def test_tables_from_elsewhere_are_counted_apart(pages: ModuleType, tmp_path: Path) -> None:
    head = "| model | share |\n| --- | ---: |\n"
    (tmp_path / "result.json").write_text(json.dumps(RESULTS))
    (tmp_path / "README.md").write_text(
        f"<!-- not in the results: by hand -->\n\n{head}| a | 0.555 |\n\n"
        f"<!-- from all of the results -->\n\n{head}| b | 83 % of 31.0 |\n\n{head}| c | 0.555 |\n"
    )
    found = pages.check_page(tmp_path)
    assert (found.agree, found.gathered, found.not_compared) == (0, 1, 1)
    assert [row.text for row in found.differ] == ["| c | 0.555 |"]


@pytest.fixture(scope="module")
def figures() -> Iterator[ModuleType]:
    """The experiment's module."""
    sys.path.insert(0, str(FOLDER))
    try:
        import figures

        yield figures
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("figures", None)


def test_every_number_of_the_list_is_printed(figures: ModuleType) -> None:
    printed = figures.printed()
    listed = figures.load().figures
    assert [figure.name for figure in listed if figure.text not in printed] == []
    assert [figure.name for figure in listed if not figure.printed] == []


def test_the_list_is_complete_in_itself(figures: ModuleType) -> None:
    listed = figures.load()
    steps = {step.name for step in listed.steps}
    assert {step.after for step in listed.steps} <= {"", *steps}
    assert {figure.step for figure in listed.figures} == {"", *steps}
    for figure in listed.figures:
        assert len(figure.values) == (len(figure.printed) if figure.step else 0)
        assert len(figure.tolerances) == len(figure.printed)
        assert figure.reason or (figure.step and not figure.tolerance)
        assert all(figures.number(printed) for printed in figure.printed)
    assert sum(step.minutes for step in listed.steps if not step.needs_caches) <= 75
    pictures = [picture.committed for step in listed.steps for picture in step.pictures]
    assert all((ROOT / committed).is_file() for committed in pictures if committed)


@pytest.mark.parametrize(
    ("text", "value", "rounding"),
    [
        ("40 %", 0.4, 0.005),
        ("1.63 %", 0.0163, 5e-5),
        ("20,442", 20442, 0.5),
        (".961", 0.961, 5e-4),
        ("-1.42", -1.42, 5e-3),
        ("267 s", 267, 0.5),
        ("24.0%", 0.24, 5e-4),
    ],
)
def test_a_printed_number_is_read_with_its_rounding(
    figures: ModuleType, text: str, value: float, rounding: float
) -> None:
    assert figures.number(text) == pytest.approx((value, rounding))


DOCUMENT: Any = {
    "rows": [
        {"name": "a", "sms": 8, "score": 0.5},
        {"name": "a", "sms": 16, "score": 0.75},
        {"name": "b", "sms": 8, "score": None},
    ],
    "text": "93 %",
}


def test_values_are_found_by_their_path(figures: ModuleType) -> None:
    at = figures.value_at
    assert at(DOCUMENT, "rows/1/sms") == 16
    assert at(DOCUMENT, "rows/name=a&sms=16/score") == 0.75
    assert at(DOCUMENT, "rows/name=a&max=score") == 0.75
    assert at(DOCUMENT, "text") == pytest.approx(0.93)
    with pytest.raises(KeyError):
        at(DOCUMENT, "rows/name=c/score")


@pytest.mark.parametrize(
    ("printed", "tolerance", "status"), [(".75", 0, "yes"), (".74", 0, "no"), (".74", 0.006, "yes")]
)
def test_a_value_is_compared_within_rounding_and_tolerance(
    figures: ModuleType, printed: str, tolerance: float, status: str
) -> None:
    figure = figures.Figure("f", f"is «{printed}»", "s", ("rows/1/score",), tolerance=tolerance)
    row = figures.compared(figure, DOCUMENT)
    assert (row.status, row.reproduced, row.readme) == (status, (0.75,), (printed,))
    assert f"| f | {printed} | 0.750 | {status} | s |" in figures.table([row])


def test_each_number_may_have_its_tolerance(figures: ModuleType) -> None:
    quote, values = "«.75» and «.74»", ("rows/1/score", "rows/1/score")
    one = figures.Figure("f", quote, "s", values, tolerance=0.01)
    assert one.tolerances == (0.01, 0.01)
    for tolerance, status in [((0.0, 0.006), "yes"), ((0.006, 0.0), "no")]:
        figure = figures.Figure("f", quote, "s", values, tolerance=tolerance)
        assert figures.compared(figure, DOCUMENT).status == status


def reproduce(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, FOLDER / "run.py", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def test_the_cheapest_steps_reproduce_their_figures_and_are_not_run_twice(tmp_path: Path) -> None:
    arguments = [
        "--only",
        "h100",
        "--only",
        "recorded",
        "--out",
        tmp_path / "out",
        "--json",
        tmp_path / "result.json",
    ]
    done = reproduce(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "result.json").read_text())
    assert {row["status"] for row in found["figures"]} == {"yes", "yes, recorded"}
    assert {step["step"] for step in found["steps"]} == {"h100", "recorded"}
    assert "| h100-sm-budgets: measurements | 20,442 | 20,442.0 | yes | h100 |" in done.stdout
    document = json.loads((tmp_path / "out" / "h100.json").read_text())
    document["description"]["measurements"] += 1
    (tmp_path / "out" / "h100.json").write_text(json.dumps(document))
    again = reproduce(*arguments)
    assert again.returncode == 1
    assert "started" not in again.stderr
    assert "| h100-sm-budgets: measurements | 20,442 | 20,443.0 | no | h100 |" in again.stdout


def test_a_failed_step_is_told_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import steps
    from figures import Step

    runner = steps.Runner(tmp_path, None)
    write = "from pathlib import Path; Path(r'{out}/good.json').write_text('{{}}')"
    planned = [
        Step("bad", ("python", "-c", "raise SystemExit('because')"), 2.0),
        Step("good", ("python", "-c", write.replace("{{}}", "1")), 1.0),
    ]
    bad, good = runner.all(planned, processes=1)
    assert "exit code 1\nbecause" in bad.failed
    assert (good.failed, (tmp_path / "good.json").read_text()) == ("", "1")
    assert good.wall_s > 0


def test_within_a_time_the_short_steps_are_run_and_what_was_done_before_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import steps
    from figures import Step

    runner = steps.Runner(tmp_path, None)
    write = "from pathlib import Path; Path(r'{out}/%s.json').write_text('1')"
    long, short, brief = (
        Step(name, ("python", "-c", write % name), minutes)
        for name, minutes in (("long", 60.0), ("short", 1.0), ("brief", 0.5))
    )
    assert [done.step for done in runner.all([long, short, brief], 1, within=30.0)] == ["brief", "short"]
    assert [done.step for done in runner.all([long], 1)] == ["long"]
    assert {done.step for done in runner.all([long, short], 1, within=0.0)} == {"long", "short"}


def test_a_step_that_needs_caches_is_skipped_without_them_and_an_unknown_one_refused(tmp_path: Path) -> None:
    done = reproduce("--only", "caches", "--out", tmp_path)
    assert done.returncode == 0
    assert "skipped: needs --caches" in done.stdout
    assert "--only must be among tune, " in reproduce("--only", "none").stderr
    assert "in all " in reproduce("--list").stdout


def test_the_page_of_a_release_tells_what_differs_and_what_was_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import figures as listed
    import release
    from steps import Done

    steps = (
        listed.Step("made", ("costmodel", "tune", "--json", "{out}/made.json"), 1.0),
        listed.Step("left", ("python", "left.py"), 1.0),
    )
    good = listed.Figure("good", "«1»", "made", ("a",))
    bad = listed.Figure("bad", "«2»", "made", ("a",))
    known = listed.Figures(steps, (good, bad, listed.Figure("alone", "«3»", reason="it needs a GPU")))
    rows = [listed.compared(figure, {"a": 1}) for figure in (good, bad)]
    done = {"made": Done("made", ("tune",), 90.0, 60.0)}
    page = release.write_page(known, release.Made("abc1234", done, rows, {}), ())
    assert "at commit abc1234" in page
    assert "**2 numbers were compared, and 1 figures differ.**\n\n- bad: printed 2, no" in page
    assert "| made | `costmodel tune --json made.json` | 2 | 1.0 |" in page
    assert "- step left: 0 numbers\n- alone: 3 (it needs a GPU)\n" in page
    made = release.Made("abc1234", done, rows, {"left": ("aaa1111", rows)})
    assert "- step left: 0 numbers (last run at aaa1111, before this commit; 1 figures differed)\n" in (
        release.write_page(known, made, ())
    )


def test_a_release_is_of_a_commit_but_for_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import release

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    for text in ("before", "now"):
        for name in ("code.py", "page.md"):
            (tmp_path / name).write_text(text)
        git("add", "."), git("commit", "-m", text)
    commits = git("log", "--format=%h").split()
    page = tmp_path / "page.md"
    page.write_text("what was found")
    assert release.find_commit(page) == commits[0]
    assert release.ancestors(["h100", *commits]) == commits[1:]
    with pytest.raises(SystemExit, match=r"page\.md"):
        release.find_commit(tmp_path / "another.md")
    (tmp_path / "code.py").write_text("altered")
    with pytest.raises(SystemExit, match=r"code\.py"):
        release.find_commit(page)
