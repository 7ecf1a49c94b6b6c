"""What formulas may be made of: the grammar, checked once when one is read."""

import ast
from collections.abc import Iterable

from costmodel.errors import CostModelError, did_you_mean
from costmodel.kernels.family._operators import FUNCTIONS, LARGEST, OPERATORS

_MOST_CHARACTERS = 4096


class FormulaError(CostModelError):
    """A formula that is not understood, or that has no value."""


_NODES = (
    *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript),
    *(ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp, ast.Call),
)


def parse(text: str) -> ast.expr:
    """Return the expression, once every node of it is known."""
    if len(text) > _MOST_CHARACTERS:
        raise FormulaError(f"A formula must have at most {_MOST_CHARACTERS} characters, but got {len(text)}.")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        said = error.msg if isinstance(error, SyntaxError) else error
        raise FormulaError(f"The formula {text!r} must be a Python expression, but{where}: {said}.") from None
    except (RecursionError, MemoryError):
        raise FormulaError(f"The formula {text[:40]!r}... must be less deeply nested.") from None
    _check(node, text.strip())
    return node


def _check(root: ast.expr, text: str) -> None:
    for node in ast.walk(root):
        if isinstance(node, ast.expr) and (refused := _refused(node)):
            part = ast.get_source_segment(text, node) or text
            raise FormulaError(f"The formula {text!r} cannot have {part!r}: {refused}.{_meant(node)}")


def _refused(node: ast.expr) -> str:
    """Tell why a node is no part of a formula; empty if it is."""
    why = ""
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            pass
        case ast.Call(func=ast.Name()):
            why = f"it may call {', '.join(FUNCTIONS)}, without names of arguments"
        case ast.Constant(value=value) if not isinstance(value, int | float | str):
            why = "constants are numbers and texts"
        case ast.Constant(value=int(value)) if value >= LARGEST:
            why = "whole numbers are below 2^62"
        case ast.BinOp(op=operator) if type(operator) not in OPERATORS:
            why = "operators are + - * / // % **"
        case ast.UnaryOp(op=ast.Invert()):
            why = "operators before a value are - + and not"
        case ast.Compare(ops=ops) if any(isinstance(each, ast.Is | ast.IsNot) for each in ops):
            why = "values are compared by == != < <= > >= and in"
        case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops) if any(
            loop.is_async or not isinstance(loop.target, ast.Name) for loop in loops
        ):
            why = "a comprehension binds one name at a time"
        case node if not isinstance(node, _NODES):
            why = "it is neither a number, a name, arithmetic, a comparison, a condition, a list nor a call"
    return why


def _meant(node: ast.expr) -> str:
    """Return a question where a call has a name near one that there is."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name not in FUNCTIONS:
            return did_you_mean(name, FUNCTIONS)
    return ""


def free_names(node: ast.expr) -> tuple[str, ...]:
    """Return the names that stand for values from outside."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in found if isinstance(each.ctx, ast.Store)}
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return tuple(dict.fromkeys(each.id for each in found if each.id not in bound and id(each) not in called))


def check_names(text: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Check that a formula uses known names only.

    Raises:
        FormulaError: It uses another.
    """
    there = sorted(known)
    for name in names:
        if name not in there:
            raise FormulaError(
                f"The formula {text!r} must use the names {', '.join(there) or '(none)'}, but it uses "
                f"{name!r}.{did_you_mean(name, there)}"
            )
