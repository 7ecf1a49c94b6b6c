"""Formulas over columns, against what Python's own eval gives for each row."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._grammar import FormulaError

pytestmark = pytest.mark.white_box

PYTHONS = {
    "__builtins__": {},
    **{
        f.__name__: f
        for f in (abs, float, int, len, list, max, min, range, round, sum, math.ceil, math.floor)
    },
}
ROWS = list(product([0, 1, 2, 3, 16, 1024], [1, 2, 5, 32], [0.5, 2.0, -3.25]))
COLUMNS = {name: np.array(values) for name, values in zip("abc", zip(*ROWS, strict=True), strict=True)}


def by_eval(text: str, row: dict[str, Any]) -> Any:
    return eval(text, {**PYTHONS, **row})  # the independent reference


@pytest.mark.parametrize(
    "text",
    [
        "a * b + c",
        "a // b - a % b",
        "-c // b",
        "a / b ** 2",
        "2 ** -b",
        "a == 0 or 1024 % a == 0",
        "not (a > 2 and b != 5) or c < 0",
        "1 <= a < b <= 32 != a",
        "b if a else -b",
        "(a or 7) * 2",
        "(a and b) + 1",
        "max(a, b, 3) - min(c, 0)",
        "ceil(a / b) + floor(c) + int(c) + round(c)",
        "a in (1, 3) and b not in [5]",
        "sum([a, b, 1]) + abs(c)",
        "max([x * 2 for x in range(4) if x % 2]) + a",
        "sizes[1] * a + sizes[-1]",
        "len(sizes) + sum(x for x in sizes)",
        "True + True + a",
        "(a == 0) + (b == 5) * (c < 0) - (a > 2)",
        "-(a == 0) / (1 + (b < 5))",
        "+a - -b",
        "a == 'text' or 'text' != a",
    ],
)
def test_a_column_gives_at_each_row_what_python_gives(text: str) -> None:
    sizes = [8, 3]
    found = Formula(text).column({**COLUMNS, "sizes": sizes}, len(ROWS))
    expected = [by_eval(text, {**dict(zip("abc", row, strict=True)), "sizes": sizes}) for row in ROWS]
    assert found.tolist() == pytest.approx(expected, rel=1e-15)


def test_texts_are_compared() -> None:
    layout = np.array(["row", "column", "row"])
    assert Formula("layout == 'row' or layout in ['x']").mask({"layout": layout}, 3).tolist() == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 4] + list(range(32, 1024+1, 32))",
        "[2**i for i in range(0, 6)]",
        "[32 * i for i in range(1, 32)]",
        "[1] + [2 * i for i in range(1, 11)]",
        "[i * j for i in range(3) for j in [1, i] if i != 1]",
        "1, 2, 3",
        "['row', 'column']",
        "[True, False, 1.5]",
    ],
)
def test_lists_of_values_are_those_of_python(text: str) -> None:
    assert list(Formula(text).value({})) == list(by_eval(text, {}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("block.size", r"cannot have 'block.size'"),
        ("__import__('os')", r"may call abs, ceil"),
        ("maxx(a, b)", r"Did you mean 'max'\?"),
        ("blok + 1", r"must use the names block, but it uses 'blok'. Did you mean 'block'\?"),
        ("block +", r"must be a Python expression, but"),
        ("lambda: 1", r"neither a number, a name"),
        ("[i for i, j in [1]]", r"binds one name at a time"),
        ("block is 1", r"compared by == !="),
        ("~block", r"before a value are - \+ and not"),
        ("block @ block", r"operators are \+ -"),
        ("max(block, key=1)", r"without names of arguments"),
        ("None", r"constants are numbers and texts"),
        ("block // 0 + 1", r"The formula 'block // 0', in 'block // 0 \+ 1' has no value: division by zero"),
        ("block < 'x'", r"two numbers or two texts"),
        ("'a' * 9", r"needs numbers"),
        ("block[0]", r"only a list can be indexed"),
        ("max(block)", r"several numbers, or a list"),
        ("0 if block > 1 else [1]", r"a list cannot be chosen for some of the configs"),
        ("[1][2]", r"has no value: list index out of range"),
        ("(-1) ** 0.5", r"root of a negative"),
        ("int(1e300 * 1e300)", r"no whole numbers"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula(text).value({"block": np.array([1, 2])})


@pytest.mark.parametrize(
    "text",
    [
        "10**10**10",
        "9**64 * 9**64",
        "block * 2**61",
        "2.0**64 ** 64.0",
        "[0] * 10**9",
        "list(range(10**9))",
        "range(10**30)",
        "[x for x in range(60000) for y in range(60000)]",
        "[x for x in range(60000) for y in range(60000) if x < 0]",
        "[[x for x in range(60000)] for y in range(60000)]",
        "sum([1 for x in range(60000) for y in range(60000)])",
        "-" * 4000 + "block",
        "(" * 300 + "block" + ")" * 300,
        "block + " * 2000 + "block",
        "9" * 4090,
    ],
)
def test_no_text_hangs_or_fills_memory(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text).value({"block": np.array([1, 2])})


@pytest.mark.parametrize(
    "text",
    [
        "len([range(65536) for i in range(40000)])",
        "sum([sum(range(65536)) for i in range(20000)])",
        "[[range(9000) for j in range(900)] for i in range(900)]",
        "max([max(range(65536)) for i in range(2000)])",
        "[a + a for a in [range(30000)] for i in range(20000)]",
        "[i in range(65536) for i in range(2000)]",
        "len([list(range(65536)) for i in range(2000)])",
        "sum([len(a) for a in [range(65536)] for i in range(20000)])",
        "[[[[b, b] for b in [a, a]] for a in [range(50000), range(50000)]] for i in range(99)]",
        "block in range(65536)",
        "sum([block] + [1 for i in range(30000)])",
        "max([block] + [1 for i in range(30000)])",
        "[block for i in range(30000)]",
    ],
)
def test_elements_are_counted_and_not_nodes_alone(text: str) -> None:
    with pytest.raises(FormulaError, match="takes too many steps"):
        Formula(text).value({"block": np.arange(65_536)})


def test_large_lists_are_allowed_within_bounds() -> None:
    assert Formula("sum(range(65536))").value({}) == 65_536 * 65_535 // 2
    assert Formula("sum([x for x in range(60000)])").value({}) == 60_000 * 59_999 // 2
    assert Formula("sum([len(range(n)) for n in range(100)])").value({}) == 4950


def test_a_long_text_takes_no_room_in_each_row() -> None:
    """A column that holds the text itself would be 1 GB."""
    found = Formula(f"'{'x' * 4000}' if block % 2 else 'y'").value({"block": np.arange(65_536)})
    assert found.nbytes == 8 * 65_536
    assert (found[0], len(found[1])) == ("y", 4000)


def test_numbers_that_are_not_whole_are_told_shortly() -> None:
    for text in ("1e308 * 10", "1e308 * 10 - 1e308 * 10", "list(range(60000))"):
        with pytest.raises(FormulaError, match="must give a whole number") as caught:
            Formula(text).whole_number({})
        assert len(str(caught.value)) < 500
    with pytest.raises(FormulaError, match="must give a number"):
        Formula("[[1], [1, 2]]").column({}, 2)


def test_no_list_of_columns_fills_memory() -> None:
    columns = {"block": np.ones(65_536, dtype=np.int64)}
    with pytest.raises(FormulaError, match="takes too many steps"):
        Formula("sum([block + i for i in range(20000)])").value(columns)
    assert Formula("sum([block + i for i in range(20)])").value(columns)[0] == 20 + 190


def test_only_numbers_fill_columns() -> None:
    with pytest.raises(FormulaError, match="must give a number"):
        Formula("'x'").column({}, 2)
    with pytest.raises(FormulaError, match="must give a whole number"):
        Formula("1 / 2").whole_number({})
    assert Formula(3).column({}, 2).tolist() == [3, 3]


def test_names_are_those_from_outside() -> None:
    assert set(Formula("[i * k for i in range(n)] + [max(k, m)]").names) == {"k", "m", "n"}


NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-40, 40).map(str) | st.sampled_from(["0.5", "2.0", "True"])


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arithmetic = st.sampled_from(["+", "-", "*", "//", "%", "/"])
    comparison = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])
    logical = st.sampled_from(["and", "or"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, arithmetic | comparison | logical, inner),
        st.builds("({} {} {} {} {})".format, inner, comparison, inner, comparison, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("{}({})".format, st.sampled_from(["abs", "ceil", "floor", "int", "round"]), inner),
        st.builds("({} in [{}, {}])".format, inner, inner, inner),
    )


@settings(max_examples=300)
@given(st.recursive(NAMES | NUMBERS, combined, max_leaves=12))
def test_any_formula_agrees_with_python(text: str) -> None:
    rows = ROWS[::5]
    columns = {name: values[::5] for name, values in COLUMNS.items()}
    try:
        expected = [by_eval(text, dict(zip("abc", row, strict=True))) for row in rows]
    except ArithmeticError:
        with pytest.raises(FormulaError, match="has no value"):
            Formula(text).column(columns, len(rows))
        return
    if max(map(abs, expected)) < 2**50:  # beyond, floats and whole numbers differ
        found = Formula(text).column(columns, len(rows)).astype(float).tolist()
        assert found == pytest.approx(list(map(float, expected)), rel=1e-12)


@settings(max_examples=200)
@given(st.text(alphabet="ab+-*/%()[]<>=!., 019'\"forinlambd_:{}\\\n", max_size=40))
def test_any_text_is_a_formula_or_an_error_that_says_so(text: str) -> None:
    try:
        Formula(text).value({"a": np.array([1, 2]), "b": 3})
    except FormulaError as error:
        assert str(error)  # noqa: PT017 (anything else fails the test)
