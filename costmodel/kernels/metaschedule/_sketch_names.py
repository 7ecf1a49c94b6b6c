"""Names for the sampling instructions of a trace, from what their results are used for."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

Factors = tuple[tuple[str, int], ...]
# A tensorised block is a matrix product of fragments, whatever it computes: these are its innermost loops.
_FRAGMENT_LOOPS = ("m", "n", "k")


class SketchNames:
    """Reads a trace as a graph: which instruction made a variable, and which use it."""

    def __init__(self, schedule: Any, trace: Any, original: Any) -> None:
        """Index the instructions of ``trace``.

        Args:
            schedule: The schedule that the trace belongs to.
            trace: The trace.
            original: Schedule of the unscheduled module.
        """
        self._schedule = schedule
        self._original = original
        self._insts = list(trace.insts)
        self._maker = {out: (inst, i) for inst in self._insts for i, out in enumerate(inst.outputs)}

    def of(self, samples: Sequence[Any]) -> list[str]:
        """A unique name for each sampling instruction, such as ``tile.conv2d_nchw.ff``."""
        names, seen = [], Counter[str]()
        for inst in samples:
            name = self._tile_name(inst) if inst.kind.name == "SamplePerfectTile" else self._use_name(inst)
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        return names

    def tiled_axes(self, samples: Sequence[Any]) -> list[tuple[str, Factors]]:
        """Each axis bound to a fusion of tiled loops, with the (name, part) of each factor in its extent.

        An annotation of such a loop counts as an axis too.
        """
        names = dict(zip(samples, self.of(samples), strict=True))
        axes = []
        for inst in self._insts:
            if inst.kind.name in ("Bind", "Annotate"):
                factors = self._factors(inst.inputs[0], names)
                if factors:
                    axes.append((str(inst.attrs[0]), factors))
        return axes

    def _factors(self, loop: Any, names: dict[Any, str]) -> Factors | None:
        """Tile factors whose product is the loop's extent; None where it has others."""
        inst, position = self._maker[loop]
        if inst.kind.name == "Fuse":
            parts = [self._factors(source, names) for source in inst.inputs]
            return None if None in parts else tuple(f for part in parts if part for f in part)
        if inst.kind.name == "Split":
            sample, part = self._maker.get(inst.inputs[1 + position], (None, 0))
            if sample is not None and sample.kind.name == "SamplePerfectTile":
                return ((names[sample], part),)
        return None

    def _tile_name(self, inst: Any) -> str:
        """``tile.<block>.<loop>`` of the loop that is tiled, ``tensor_tile`` of one that counts fragments."""
        loops, position = self._maker[inst.inputs[0]]
        if loops.kind.name != "GetLoops":
            return "tile"
        found, _ = self._maker[loops.inputs[0]]
        if found.kind.name == "Blockize":
            loop = _FRAGMENT_LOOPS[position - len(loops.outputs)]
            return f"tensor_tile.{self._owner(found.inputs[0])}.{loop}"
        if found.kind.name != "GetSBlock":
            return f"tile.{self._block(loops.inputs[0])}.{position}"
        block = str(found.attrs[0])
        loop = self._original.get_loops(self._original.get_sblock(block))[position]
        return f"tile.{block}.{self._original.get(loop).loop_var.name}"

    def _use_name(self, inst: Any) -> str:
        """``<annotation>.<block>``, ``split.<block>`` or ``compute_at.<block>``, by the first use."""
        if inst.kind.name == "SampleComputeLocation":
            return f"compute_at.{self._block(inst.inputs[0])}"
        result = inst.outputs[0]
        use = next(i for i in self._insts if any(result.same_as(x) for x in _objects(i.inputs)))
        if use.kind.name == "Annotate":
            return f"{str(use.attrs[0]).removeprefix('meta_schedule.')}.{self._block(use.inputs[0])}"
        return f"split.{self._owner(use.inputs[0])}"

    def _owner(self, loop: Any) -> str:
        """The block whose loop this is, through fusions and splits."""
        inst, _ = self._maker[loop]
        return self._block(inst.inputs[0]) if inst.kind.name == "GetLoops" else self._owner(inst.inputs[0])

    def _block(self, block: Any) -> str:
        """Name of a block, also of one that a later instruction removed."""
        inst, _ = self._maker[block]
        if inst.kind.name == "GetSBlock":
            return str(inst.attrs[0])
        return str(self._schedule.get(block).name_hint)


def _objects(inputs: Any) -> list[Any]:
    """Inputs that are objects, not plain numbers or strings."""
    return [value for value in inputs if hasattr(value, "same_as")]
