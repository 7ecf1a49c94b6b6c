"""A plan as one web page: what it says first, then the picture, then tables with short names."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from costmodel.planner._operators import OPERATOR_COLUMNS, shown_operators
from costmodel.planner._ranks import RANK_COLUMNS, shown_ranks
from costmodel.report._page import figure_html, web_page

if TYPE_CHECKING:
    from costmodel.planner._plan import Plan

# Numbers stand in columns, shares are drawn behind them, and a phone keeps the names while it scrolls.
_STYLE = """
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
.verdict { font-size: 1.15rem; margin: 0.3rem 0; }
.verdict:first-of-type { font-size: 1.6rem; font-weight: 600; line-height: 1.25; }
li { overflow-wrap: anywhere; }
table { font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; position: sticky; top: 0; background: #fff; }
td.number, th.number { text-align: right; }
td:first-child, th:first-child { position: sticky; left: 0; }
td:first-child, th:first-child { background-color: #fff; background-clip: padding-box; }
td:first-child { max-width: 30rem; overflow: hidden; text-overflow: ellipsis; }
td[title] { cursor: help; }
figure { margin: 1rem 0; overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 40rem) {
  body { margin: 0.5rem auto; }
  .verdict:first-of-type { font-size: 1.3rem; }
  td:first-child { max-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
  th, td { padding: 0.2rem 0.4rem; }
  .minor { display: none; }
  img { max-width: none; width: 44rem; }
}
"""
# A change that is none.
_SAME = 0.005
# Rows of a table.
_MOST_ROWS = 40
# Letters of a short name, and of its beginning if its middle is left out.
_MOST_LETTERS, _HEAD_LETTERS = 48, 28
# Words in the arguments of a template that say nothing of what a kernel does.
_PLAIN = re.compile(
    r"(void|bool|int\d*_?t?|unsigned|signed|char|short|long|float\d*|double|half\w*|const|true|false|std|at|c10|"
    r"native|detail|array|lambda|operator|anonymous|namespace|\w*bfloat16\w*|__half|opaquetype|cutlass|cute|"
    r"gpu_kernel_impl\w*|tensoriterator\w*|\w*binary\w*|[ab]?unaryfunctor|reduceop|enable_sm\w*|gemm|kernel|"
    r"type|size_t|\w{1,3}|\w*_t)",
    re.IGNORECASE,
)


class _Cell(NamedTuple):
    """A cell: what it shows, what it shows when pointed at, and the share to draw behind it."""

    text: str
    title: str = ""
    share: float = 0.0

    def to_html(self, tag: str, kind: str) -> str:
        """Return the cell as HTML, of a class unless that is empty."""
        of = f' class="{kind}"' if kind else ""
        title = f' title="{escape(self.title)}"' if self.title else ""
        end = f"{100 * self.share:.0f}%"
        bar = f' style="background-image: linear-gradient(to right, #cfe6e1 {end}, #fff {end})"'
        return f"<{tag}{of}{title}{bar if self.share else ''}>{escape(self.text)}</{tag}>"


def plan_page(plan: "Plan") -> str:
    """Return the page."""
    parts = [
        *(f'<p class="verdict">{escape(each)}</p>' for each in plan_verdict(plan)),
        f"<h1>{escape(plan.name)}</h1>",
        figure_html(plan.plot(), "Threads and streams over time; the critical path is marked red", dpi=110),
        _summary(plan),
        _ranks(plan),
        _operators(plan),
        _critical_path(plan),
        _list("Assumed", plan.assumptions),
        _list("Found in the file", plan.inspection.sentences()),
    ]
    return web_page(f"Plan of {plan.name}", "\n".join(part for part in parts if part), _STYLE)


def plan_verdict(plan: "Plan") -> list[str]:
    """Say in a few sentences how long it takes, what sets the pace, and what takes most of it."""
    before, after = plan.before.makespan_s, plan.after.makespan_s
    values = plan.summary()["after"]
    first = f"{format_seconds(after)}, of which a device is busy {values['device_busy_share']:.0%}."
    if plan.is_changed:
        first = f"{plan.speedup:.2f}x as fast: {format_seconds(before)} becomes {format_seconds(after)}."
        if abs(plan.speedup - 1.0) < _SAME:
            first = f"As fast as before, to within {_SAME:.1%}: {format_seconds(after)}."
        if plan.ends_s is not None:
            least, most = (format_seconds(seconds) for seconds in plan.ends_s)
            first = f"{first[:-1]}, or between {least} and {most}."
    return [first, _pace(values), *_longest(plan), *_waiting(plan)]


def _pace(values: "pd.Series[float]") -> str:
    """What most of the critical path is."""
    parts = {
        "The device sets the pace: kernels and copies": values["critical_path_kernels_share"],
        "The host sets the pace: its calls": values["critical_path_host_share"],
        "Gaps set the pace: launch latencies and idle hosts": values["critical_path_gaps_share"],
    }
    what, share = max(parts.items(), key=lambda part: part[1])
    return f"{what} are {share:.0%} of the critical path."


def _longest(plan: "Plan") -> list[str]:
    """What the operator that takes most of the time of kernels reaches."""
    if not len(plan.operators):
        return []
    row = plan.operators.iloc[0]
    of_roofline = row["roofline_share"]
    reached = "" if pd.isna(of_roofline) else f", at {of_roofline:.0%} of what the device allows"
    name = row["operator"]
    what = f"What no operator launched {name}" if name.startswith("(") else name
    return [f"{what} takes {row['share']:.0%} of the time of kernels{reached}."]


def _waiting(plan: "Plan") -> list[str]:
    """What ranks wait for each other."""
    ranks = plan.ranks
    if not len(ranks):
        return []
    exposed = ranks["exposed_s"].max() / (plan.after.makespan_s or 1.0)
    share = "less than 1%" if exposed < 0.01 else f"up to {exposed:.0%}"
    late = ranks.sort_values("last_share", ascending=False).iloc[0]
    return [
        f"Ranks compute nothing while they communicate for {share} of the time. Rank "
        f"{int(late['rank'])} arrives last at {late['last_share']:.0%} of its collectives."
    ]


def format_seconds(seconds: float) -> str:
    """Write a time with three digits or more, in us, ms or s."""
    factor, unit = next((each for each in ((1.0, "s"), (1e3, "ms")) if seconds * each[0] >= 1.0), (1e6, "us"))
    value = seconds * factor
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:#.3g} {unit}"


def shorten_kernel(name: str) -> str:
    """Return what tells a kernel from others: its own name and the first word of its template that says more.

    Example:
        >>> shorten_kernel("void at::native::reduce_kernel<512, 1, at::native::MeanOps<float>>(float*)")
        'reduce_kernel<MeanOps>'
    """
    plain = name.replace("(anonymous namespace)::", "")
    head, bracket, rest = plain.partition("<")
    own = head.partition("(")[0].rpartition("::")[2].split()[-1:] or [head]
    words = re.findall(r"[A-Za-z_]\w*", rest) if bracket else []
    telling = next((word for word in words if not _PLAIN.fullmatch(word)), "")
    short = f"{own[0]}<{telling}>" if telling else own[0]
    if not re.search(r"\w", short):
        short = name
    if len(short) <= _MOST_LETTERS:
        return short
    tile = re.search(r"[A-Za-z]*\d+x\d+(x\d+)*", short[_HEAD_LETTERS:])
    end = tile[0] if tile else short[-(_MOST_LETTERS - _HEAD_LETTERS - 3) :]
    return f"{short[:_HEAD_LETTERS]}...{end}"


def _summary(plan: "Plan") -> str:
    columns = ["", *(["before", "after"] if plan.is_changed else ["replayed"])]
    return _table("In numbers", columns, [[_Cell(text) for text in row] for row in plan.shown()])


def _ranks(plan: "Plan") -> str:
    rows = [[_Cell(text) for text in row] for row in shown_ranks(plan.ranks)] if len(plan.ranks) else []
    return _table("Ranks", RANK_COLUMNS, rows)


def _operators(plan: "Plan") -> str:
    table = plan.operators.head(_MOST_ROWS)
    shares = table["share"].tolist()
    rows = [
        [_named(row[0], share), *(_Cell(text) for text in row[1:])]
        for row, share in zip(shown_operators(table), shares, strict=True)
    ]
    return _table("Operators, longest first", OPERATOR_COLUMNS, rows, words=2)


def _critical_path(plan: "Plan") -> str:
    table = plan.critical_path.by_name().head(_MOST_ROWS)
    ranks = ("rank",) if "rank" in table else ()
    rows = [
        [
            _named(row["name"], row["share"]),
            _Cell(row["kind"]),
            *(_Cell(str(row[each])) for each in ranks),
            _Cell(f"{row['tasks']:,}"),
            _Cell(f"{1e6 * row['seconds']:,.1f}"),
            _Cell(f"{100 * row['share']:.1f}"),
        ]
        for row in table.to_dict(orient="records")
    ]
    return _table("Critical path, longest first", ("name", "kind", *ranks, "tasks", "us", "%"), rows, words=2)


def _named(name: str, share: float) -> _Cell:
    """A short name, before its share; the long one is shown when it is pointed at."""
    short = shorten_kernel(name) if "<" in name or len(name) > _MOST_LETTERS else name
    return _Cell(short, name if short != name else "", share)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[_Cell]], words: int = 1) -> str:
    """A table, whose first columns are words and the others numbers; nothing if it has no rows."""
    kinds = ["", *["minor"] * (words - 1), *["number"] * (len(columns) - words)]

    def line(tag: str, cells: Iterable[_Cell]) -> str:
        return f"<tr>{''.join(cell.to_html(tag, kind) for cell, kind in zip(cells, kinds, strict=True))}</tr>"

    lines = [line("th", map(_Cell, columns)), *(line("td", row) for row in rows)]
    body = "\n".join(lines)
    return f"<h2>{escape(title)}</h2>\n<table>\n{body}\n</table>" if len(lines) > 1 else ""


def _list(title: str, sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{escape(each)}</li>" for each in sentences)
    summary = f"<summary>{title} ({len(sentences)})</summary>"
    return f"<details open>{summary}\n<ul>\n{items}\n</ul></details>" if sentences else ""
