"""What a kernel uses each of its parameters for, by its Python source.

A parameter that shapes tiles is told from one that counts, one that tells how far loops overlap, and one that
switches: what values are worth trying follows from that.
"""

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Use = Literal["tile", "count", "stages", "switch", "text"]

# Functions whose arguments are shapes or bounds of tiles, from which place on, and the name of the argument.
_SHAPED = {
    **dict.fromkeys(("arange", "zeros", "full"), (0, "shape")),
    **dict.fromkeys(("reshape", "view", "broadcast_to"), (1, "shape")),
    "make_block_ptr": (4, "block_shape"),
    "make_tensor_descriptor": (3, "block_shape"),
}
_PRODUCTS = frozenset(("dot", "dot_scaled"))
_STAGES = "num_stages"
_UNROLLING = "loop_unroll_factor"
_PRECISION = "input_precision"
_SMALL = 16  # numbers up to this in shapes are rather factors than sides
_MOST_CALLS = 16  # deep
_Env = Mapping[str, frozenset[str]]


@dataclass
class ParameterUses:
    """What a kernel and the functions that it calls use parameters for.

    Attributes:
        found: Uses of each parameter.
        compared: Numbers that each is compared with.
        literals: Sides of tiles that the source has as numbers.
        multiplies: Whether tiles are multiplied.
        loops: Whether there are loops that a compiler may overlap.
        paces: Parameters that loops step by, or that tell how often they turn.
    """

    found: defaultdict[str, set[Use]] = field(default_factory=lambda: defaultdict(set))
    compared: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    literals: set[int] = field(default_factory=set)
    multiplies: bool = False
    loops: bool = False
    paces: set[str] = field(default_factory=set)

    def use(self, name: str) -> Use:
        """Return what a parameter is for, above all; what is not told counts."""
        order: tuple[Use, ...] = ("text", "tile", "stages", "count", "switch")
        return next((use for use in order if use in self.found[name]), "count")


def find_uses(function: Any) -> ParameterUses:
    """Find what a ``@triton.jit`` function uses its parameters for."""
    uses = ParameterUses()
    _Reader(uses, function, {name: frozenset((name,)) for name in function.arg_names}, 0).read()
    return uses


@dataclass
class _Reader(ast.NodeVisitor):
    """Reads one function.

    Attributes:
        uses: Is added to.
        function: The function.
        env: Parameters of the kernel that each name is made of.
        depth: How many calls led to it.
    """

    uses: ParameterUses
    function: Any
    env: dict[str, frozenset[str]]
    depth: int

    def read(self) -> None:
        """Read the function's body."""
        for definition in _parse(self.function).body:
            assert isinstance(definition, ast.FunctionDef)
            for statement in definition.body:
                self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign([node.target], node.value)

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        self.visit(value)
        made_of = self._made_of(value)
        for target in targets:
            if isinstance(target, ast.Name):
                self.env[target.id] = made_of

    def visit_If(self, node: ast.If) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.uses.loops = True
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        is_unrolled = isinstance(node.iter, ast.Call) and _name(node.iter.func) == "static_range"
        self.uses.loops |= not is_unrolled
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        for side in (node.left, node.right):
            self._note(side, "count")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        named = {each.arg: each.value for each in node.keywords if each.arg}
        if name in _SHAPED:
            first, keyword = _SHAPED[name]
            is_method = isinstance(node.func, ast.Attribute) and not _is_language(node.func.value)
            for shape in (*node.args[max(0, first - is_method) :], named.get(keyword)):
                if shape is not None:
                    self._note(shape, "tile", inside=True)
                    self.uses.literals |= {
                        each.value
                        for each in ast.walk(shape)
                        if isinstance(each, ast.Constant) and type(each.value) is int and each.value > _SMALL
                    }
        elif name in ("range", "static_range"):
            self._note_loop(node.args, named)
        elif name == "cdiv":
            self._note_pace(node)
        if _PRECISION in named:
            self._note(named[_PRECISION], "text")
        self.uses.multiplies |= name in _PRODUCTS
        callee = self._callee(node.func)
        if callee is not None and self.depth < _MOST_CALLS:
            self._follow(callee, node.args, named)
        self.generic_visit(node)

    def _note_loop(self, bounds: Sequence[ast.expr], named: Mapping[str, ast.expr]) -> None:
        for bound in bounds:
            self._note(bound, "count")
            self._note_pace(bound)
        if _STAGES in named:
            self._note(named[_STAGES], "stages")
        if _UNROLLING in named:
            self._note(named[_UNROLLING], "count")

    def _note_pace(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                self.uses.paces |= self.env.get(part.id, frozenset())

    def _follow(self, callee: Any, given: Sequence[ast.expr], named: Mapping[str, ast.expr]) -> None:
        """Read a function that is called with what it is called with."""
        told = {**dict(zip(callee.arg_names, given, strict=False)), **named}
        env = {name: self._made_of(value) for name, value in told.items()}
        _Reader(self.uses, callee, env, self.depth + 1).read()

    def _callee(self, node: ast.expr) -> Any:
        """Return the ``@triton.jit`` function that is called; None if it is none, or the language's own."""
        if isinstance(node, ast.Name):
            found = self.function.fn.__globals__.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = getattr(self.function.fn.__globals__.get(node.value.id), node.attr, None)
        else:
            return None
        is_own = hasattr(found, "fn") and hasattr(found, "arg_names")
        return found if is_own and not found.fn.__module__.startswith("triton.") else None

    def _test(self, node: ast.expr) -> None:
        """Note what a branch depends on."""
        for each in ast.walk(node):
            if isinstance(each, ast.Compare):
                self._compare([each.left, *each.comparators])
            elif isinstance(each, ast.Name):
                self._note(each, "switch")

    def _compare(self, sides: Sequence[ast.expr]) -> None:
        constants = {each.value for each in sides if isinstance(each, ast.Constant)}
        for name in {name for each in sides for name in self._made_of(each)}:
            if any(isinstance(each, str) for each in constants):
                self.uses.found[name].add("text")
            self.uses.compared[name] |= {each for each in constants if type(each) is int}

    def _note(self, node: ast.expr, use: Use, *, inside: bool = False) -> None:
        parts = list(ast.walk(node)) if inside else [node]
        for part in parts:
            if isinstance(part, ast.Name):
                for name in self.env.get(part.id, ()):
                    self.uses.found[name].add(use)

    def _made_of(self, node: ast.expr) -> frozenset[str]:
        """Return the parameters that arithmetic is made of; none if other things are in it."""
        names = set[str]()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                names |= self.env.get(part.id, frozenset())
            elif not isinstance(part, _ARITHMETIC):
                return frozenset()
        return frozenset(names)


_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop, ast.expr_context)


def _parse(function: Any) -> ast.Module:
    """Parse a function; one that is interpreted does not do it by itself."""
    if hasattr(function, "parse"):
        parsed: ast.Module = function.parse()
        return parsed
    return ast.parse(textwrap.dedent(inspect.getsource(function.fn)))


def _is_language(node: ast.expr) -> bool:
    """Tell whether it is what the language is imported as."""
    return isinstance(node, ast.Name) and node.id in ("tl", "language")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
