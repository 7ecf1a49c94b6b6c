"""cuSync's tables: two matrix products for so many tokens, how they were launched and what they took."""

import tomllib
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from costmodel.arrays import FloatArray

TABLES = [f"mlp-{model}-{gpu}" for gpu in ("v100", "a100") for model in ("gpt3", "llama")]
SMS = {"v100": 80, "a100": 108}
SHARED_BYTES = {"v100": 96 * 1024, "a100": 164 * 1024}
REGISTERS = 65536
# Columns and reduction of the two matrix products of a layer.
LAYERS = {"gpt3": ((6144, 12288), (12288, 6144)), "llama": ((5632, 8192), (8192, 2816))}
WAVE_BOUND = 512  # tokens from which on time is in steps of waves; below, it is that of reading the weights
POLICIES = ("row", "tile")


@dataclass(frozen=True)
class Launch:
    """How a matrix product was launched; sizes of tiles in elements of float16."""

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int
    splits: int

    def blocks_per_sm(self, gpu: str) -> int:
        """What shared memory and registers allow, at 80 registers a thread beside the accumulators."""
        threads = 32 * (self.rows // self.warp_rows) * (self.columns // self.warp_columns)
        registers = min(255, self.warp_rows * self.warp_columns // 32 + 80)
        shared = 2 * (self.rows + self.columns) * self.depth * self.stages
        return max(1, min(REGISTERS // (threads * registers), SHARED_BYTES[gpu] // shared))

    def grid(self, tokens: int, columns: int) -> tuple[int, int, int]:
        return ceil(tokens / self.rows), ceil(columns / self.columns), self.splits


@dataclass(frozen=True)
class Case:
    """A row of a table: a layer for so many tokens; times in microseconds."""

    table: str
    tokens: int
    total: float
    alone: tuple[float, float]
    spread: float
    overlapped: dict[str, float]
    launches: dict[str, tuple[Launch, Launch]]

    @property
    def gpu(self) -> str:
        return self.table.split("-")[2]

    @property
    def layer(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return LAYERS[self.table.split("-")[1]]

    @property
    def saved(self) -> FloatArray:
        """``(2,)`` points that row and tile saved."""
        return np.array([100 * (1 - self.overlapped[policy] / self.total) for policy in POLICIES])


def read_table(folder: Path, table: str) -> list[Case]:
    """The rows of a table; of two for the same tokens the later one."""
    launches = known_launches(table)
    by_tokens: dict[int, dict[str, list[float]]] = {}
    for line in (folder / f"{table}.csv").read_text().splitlines():
        tokens, _, _, name, *values = [part.strip() for part in line.split("&")]
        by_tokens.setdefault(int(tokens), {})[name] = [float(value) for value in values]
    cases = []
    for tokens, rows in by_tokens.items():
        total, spread, first, second = rows["baseline"]
        overlapped = {policy: rows[f"{policy}sync"][4] for policy in POLICIES}
        cases.append(Case(table, tokens, total, (first, second), spread, overlapped, launches[tokens]))
    return cases


def known_launches(table: str) -> dict[int, dict[str, tuple[Launch, Launch]]]:
    """The two launches of each policy, by tokens."""
    found: dict[int, dict[str, tuple[Launch, Launch]]] = {}
    for entry in tomllib.loads(Path(__file__).with_name("launches.toml").read_text())[table]:
        pair = Launch(*entry["producer"]), Launch(*entry["consumer"])
        for tokens in entry["tokens"]:
            found.setdefault(tokens, {}).update(dict.fromkeys(entry["policies"], pair))
    return found


def same_gpu(table: str) -> str:
    """The other table of a GPU."""
    swapped = {"gpt3": "llama", "llama": "gpt3"}
    name, model, gpu = table.split("-")
    return f"{name}-{swapped[model]}-{gpu}"
