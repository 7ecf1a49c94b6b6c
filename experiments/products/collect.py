"""Time the candidates of many matrix products on parts of a GPU: cuBLASLt's, PyTorch's call, Triton's.

Shapes come in an order drawn by chance, and all parts and candidates of one are timed together, so that what
is there when time is up is a sample of all. Results are saved every two minutes.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from candidates import Variant, list_variants, variant_of
from compiling import fill_cache, load_variants, work_without_gpu
from fake_gpu import FakeGpu
from gpu import Gpu
from shapes import Shape, list_shapes

from costmodel.products._candidates import list_tiled
from costmodel.products._product import Kernel

BUDGETS = (8, 16, 32, 64, 96, 132)
_TOLD, _UNTOLD = 8, 5  # of cuBLASLt's list, told its SMs and not
_VARIANTS = 1500  # of some 2,000, the most needed: 98 % of what is needed
_COLD, _AGAIN = 0.04, 0.03  # of the shapes
_LONGEST_S = 12e-3  # of a run that is worth its time, by the rate below
_RATE = {"float32": 3e11, "tfloat32": 2e12}  # operations a second of an SM
_ALGORITHM = ("id", "tile", "splits", "reduction", "swizzle", "custom", "stages", "inner", "cluster")


def main() -> None:
    """Compile, time, save, and print what is there."""
    options = _options()
    started = time.time()
    shard, count = (int(each) for each in options.shard.split("/"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(options.cache))
    every = _without_measured(list_shapes(), options.lacking)
    shapes = every[shard::count][: options.shapes or None][options.begin :]
    wanted = list_variants(every if count > 1 else shapes, BUDGETS)
    variants = [each for each, _ in wanted[:_VARIANTS] if each.kind not in options.without]
    _say(started, f"{len(shapes)} shapes, {len(variants)} variants")
    filled = fill_cache(variants, options.workers, started + options.compile_seconds, (shard, count))
    _say(started, f"{filled} variants compiled")
    if options.fake:
        work_without_gpu()
    gpu = FakeGpu(BUDGETS) if options.fake else Gpu(BUDGETS)
    from_cache = load_variants(variants, options.workers, started + options.compile_seconds + 25)
    _say(started, f"{len(from_cache)} variants loaded")
    table = Table(options.out / f"products-{shard}-{options.begin}.parquet", gpu.facts())
    draw = random.Random(shard + options.begin)
    done, saved = 0, time.time()
    for shape in shapes:
        if time.time() - started > options.seconds:
            break
        session = Session(gpu, shape, from_cache, table, draw)
        try:
            session.run(started + options.seconds)
        except Exception as error:  # noqa: BLE001 (the device refuses all from here on)
            table.save()
            _say(started, f"{shape}: {session.now}: {error}")
            options.without.append(session.now)
            _begin_again(options, options.begin + done + 1, options.seconds - (time.time() - started))
        done += 1
        if time.time() - saved > 120:
            saved = table.save()
            _say(started, f"{done} shapes, {len(table.rows)} measurements")
    table.save()
    _say(started, f"{done} shapes, {len(table.rows)} measurements")
    print(json.dumps({"shard": shard, "shapes": done, **table.summary()}), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--seconds", type=float, default=540.0, help="of everything, compiling too")
    parser.add_argument("--compile-seconds", type=float, default=75.0, help="after which no more is compiled")
    parser.add_argument("--shard", default="0/1", help="I/N: the shapes of one of N processes")
    parser.add_argument("--shapes", type=int, default=0, help="at most; 0 for all")
    parser.add_argument("--begin", type=int, default=0, help="leave out as many shapes of the shard")
    parser.add_argument(
        "--lacking", type=Path, nargs="*", default=[], help="tables whose shapes are left out"
    )
    parser.add_argument("--without", nargs="*", default=[], help="kinds of candidates to leave out")
    parser.add_argument("--workers", type=int, default=15, help="processes that compile")
    parser.add_argument(
        "--cache", type=Path, default=Path("/tmp/products-triton"), help="of compiled kernels"
    )
    parser.add_argument("--fake", action="store_true", help="time nothing: try the script without a GPU")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def _without_measured(shapes: list[Shape], tables: list[Path]) -> list[Shape]:
    import pyarrow.parquet as pq

    measured = set[tuple[Any, ...]]()
    for path in tables:
        columns = pq.read_table(path, columns=[*Shape._fields]).to_pydict()
        measured.update(zip(*(columns[name] for name in Shape._fields), strict=True))
    return [shape for shape in shapes if tuple(shape) not in measured]


def _begin_again(options: argparse.Namespace, begin: int, seconds: float) -> None:
    """Go on in a process of its own: a fault of a kernel leaves this one without a device."""
    names = "out", "shard", "shapes", "workers", "cache"
    kept = [text for name in names for text in (f"--{name}", str(getattr(options, name)))]
    rest = ["--begin", str(begin), "--seconds", f"{seconds:.0f}", "--compile-seconds", "30"]
    rest += ["--lacking", *map(str, options.lacking)]
    sys.exit(subprocess.call([sys.executable, __file__, *kept, *rest, "--without", *options.without]))


def _say(started: float, text: str) -> None:
    print(f"{time.time() - started:6.1f} s  {text}", file=sys.stderr, flush=True)


class Table:
    """Rows, and the file that holds them."""

    def __init__(self, path: Path, facts: dict[str, str]) -> None:
        self.path, self.facts, self.rows = path, facts, list[dict[str, Any]]()

    def save(self) -> float:
        """Write all rows; when."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.rows:
            names = list(dict.fromkeys(name for row in self.rows for name in row))
            columns = {name: [row.get(name) for row in self.rows] for name in names}
            table = pa.table({name: _column(pa, name, values) for name, values in columns.items()})
            table = table.replace_schema_metadata(self.facts)
            part = self.path.with_suffix(".part")
            pq.write_table(table, part, compression="zstd", compression_level=15)
            part.replace(self.path)
        return time.time()

    def summary(self) -> dict[str, Any]:
        """How many of what."""
        outcomes = Counter(row["outcome"] for row in self.rows)
        kinds = Counter(f"{row['backend']} {row['kind']}".strip() for row in self.rows)
        return {"rows": len(self.rows), "outcomes": dict(outcomes), "kinds": dict(kinds)}


def _column(pa: Any, name: str, values: list[Any]) -> Any:
    if name == "seconds":
        return pa.array(values, pa.float32())
    if name == "waves":
        return pa.array(values, pa.float32())
    if any(isinstance(value, str) for value in values):
        return pa.array(values).dictionary_encode()
    return pa.array(values, pa.int32())


class Timed(NamedTuple):
    """Seconds of a run, how many runs say so, and whether it went well."""

    seconds: float
    runs: int
    outcome: str = "ok"


class Session:
    """Everything that is measured of a shape."""

    def __init__(
        self, gpu: Any, shape: Shape, compiled: dict[Variant, Any], table: Table, draw: random.Random
    ) -> None:
        self._product = shape.product
        self.now = ""  # kind of the candidate that was last launched
        self._gpu, self._shape, self._compiled, self._table, self._draw = gpu, shape, compiled, table, draw
        self._is_cold, self._is_again = draw.random() < _COLD, draw.random() < _AGAIN
        self._checked: set[tuple[str, ...]] = set()

    def run(self, until: float) -> None:
        """Measure, and free what it took."""
        try:
            operands = self._gpu.operands(self._product)
            product = self._gpu.product(operands)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            self._add(0, {"backend": "", "kind": ""}, Timed(0.0, 0, f"failed: {error}"[:80]))
            return
        budgets = sorted(self._gpu.streams)
        self._draw.shuffle(budgets)
        for sms in budgets:
            rate = _RATE.get(self._product.dtype, 4e12)
            if self._product.flops / (rate * sms) > _LONGEST_S or time.time() > until:
                continue
            self._measure_part(operands, product, sms)
        product.close()

    def _measure_part(self, operands: Any, product: Any, sms: int) -> None:
        candidates = list(self._candidates(operands, product, sms))
        head, tail = candidates[:1], candidates[1:]
        self._draw.shuffle(tail)
        best_s = float("inf")
        with self._gpu.on(sms):
            for visit in range(2 if self._is_again else 1):
                for what, launch in [*head, *tail]:
                    timed = self._time(operands, what, launch, sms, best_s)
                    self._add(sms, what, timed, visit)
                    if timed.outcome == "ok":
                        best_s = min(best_s, timed.seconds)
            if self._is_cold:
                for what, launch in [*head, *tail]:
                    self._add_cold(what, launch, sms)

    def _candidates(self, operands: Any, product: Any, sms: int) -> Iterator[tuple[dict[str, Any], Any]]:
        yield {"backend": "torch", "kind": ""}, self._gpu.call(operands)
        lists = [(0, _TOLD)] if sms == self._gpu.whole else [(sms, _TOLD), (0, _UNTOLD)]
        for told, most in lists:
            for each in product.algorithms(told, most):
                config = {f"lt_{name}": each.config[name] for name in _ALGORITHM}
                facts = {"position": each.position, "waves": each.waves, **config}
                yield {"backend": "cublaslt", "kind": "told" if told else "", **facts}, each.launch
        for kernel in list_tiled(self._product, sms):
            variant = variant_of(self._product, kernel)
            if variant in self._compiled:
                try:
                    launch = self._gpu.kernel(operands, kernel, variant, self._compiled[variant], sms)
                except Exception:  # noqa: BLE001 (more shared memory than there is, a descriptor that is refused)
                    continue
                yield {"backend": "triton", "kind": kernel.kind, **_decisions(kernel)}, launch

    def _time(self, operands: Any, what: dict[str, Any], launch: Any, sms: int, best_s: float) -> Timed:
        key = what["backend"], *(str(value) for name, value in what.items() if name != "waves")
        self.now = what["kind"] or what["backend"]
        is_checked = sms == self._gpu.whole and key not in self._checked
        try:
            if is_checked:
                self._checked.add(key)
                operands.poison()
                self._gpu.wait()
            seconds, runs = self._gpu.time(launch, self._gpu.streams[sms], best_s)
            if is_checked:
                found = launch(self._gpu.streams[sms]) if what["backend"] == "torch" else None
                self._gpu.wait()
                if not operands.is_right(operands.c if found is None else found):
                    return Timed(seconds, runs, "wrong_result")
        except Exception as error:
            if "illegal" in str(error).lower():
                raise
            self._gpu.clear()
            return Timed(0.0, 0, "launch_error")
        return Timed(seconds, runs)

    def _add_cold(self, what: dict[str, Any], launch: Any, sms: int) -> None:
        try:
            seconds, runs = self._gpu.time_cold(launch, self._gpu.streams[sms])
        except Exception:  # noqa: BLE001 (as above)
            self._gpu.clear()
            return
        self._add(sms, what, Timed(seconds, runs), regime="cold")

    def _add(
        self, sms: int, what: dict[str, Any], timed: Timed, visit: int = 0, regime: str = "warm"
    ) -> None:
        row = {**self._shape._asdict(), "sms": sms, **what, **timed._asdict()}
        self._table.rows.append({**row, "visit": visit, "regime": regime})


def _decisions(kernel: Kernel) -> dict[str, int]:
    tile = dict(zip(Kernel._fields[2:7], kernel[2:7], strict=True))
    return {**tile, "group_m": kernel.group_m, "splits": kernel.splits, "per_sm": kernel.programs_per_sm}


if __name__ == "__main__":
    main()
