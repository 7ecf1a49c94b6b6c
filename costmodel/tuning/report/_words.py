"""How the reports of ``costmodel tune`` write kernels, times and budgets."""

from collections.abc import Iterator

from costmodel.records._candidate import Candidate, Decision
from costmodel.records._platform import Platform
from costmodel.search._provenance import Provenance


def decisions(candidate: Candidate) -> str:
    """All decisions of a config."""
    return ", ".join(f"{name} {_value(value)}" for name, value in candidate.config.decisions.items())


def launches(candidate: Candidate) -> str:
    """Grid and block sizes of the kernels; empty where nobody knows them, as of a library's call."""
    return " + ".join(f"{each.blocks}x{each.threads_per_block}" for each in candidate.launches if each.blocks)


def microseconds(latency_s: float | None) -> str:
    """Microseconds with three or more digits; empty where unknown."""
    return "" if latency_s is None else _three_digits(1e6 * latency_s)


def milliseconds(latency_s: float) -> str:
    """Milliseconds with three or more digits."""
    return _three_digits(1e3 * latency_s)


def budget(platform: Platform) -> str:
    """Such as ``32 SMs``; ``all SMs`` of a device of which nobody knows how many it has."""
    unit = unit_of(platform)
    if platform.sms_granted == 0:
        return f"all {unit}"
    return f"1 {unit.removesuffix('s')}" if platform.sms_granted == 1 else f"{platform.sms_granted} {unit}"


def unit_of(platform: Platform) -> str:
    """What a budget counts."""
    return "threads" if platform.device.kind == "cpu" else "SMs"


def origin(provenance: Provenance) -> Iterator[str]:
    """Where an answer came from, each sentence about a line: what measured, and what models knew."""
    of_source: dict[str, dict[str, str]] = {}
    for name, value in provenance.knowledge.items():
        source, _, fact = name.rpartition(" ")
        of_source.setdefault(source or "known", {})[fact] = value

    def told(fact: str) -> list[str]:
        return sorted({known[fact] for known in of_source.values() if fact in known})

    measured = f"{provenance.n_measurements} candidates measured, {provenance.n_screened} screened"
    data = "".join(f", data {sha256[:12]}" for sha256 in told("dataset_sha256"))
    yield f"From: {measured}; costmodel {provenance.versions['costmodel']}{data}."
    for source, known in of_source.items():
        if known.get("trained_on") == "nothing":
            yield f"{source.capitalize()}: nothing before this search; it learned from its own measurements."
        elif "trained_on" in known:
            yield f"{source.capitalize()}: {known['model']}, trained on {known['trained_on']}."
    yield from (f"Left out: {left_out}." for left_out in told("left_out"))


def _three_digits(value: float) -> str:
    """A positive number with three or more digits."""
    return f"{value:#.3g}".removesuffix(".") if value < 100 else f"{value:.0f}"


def _value(value: Decision) -> str:
    """A decision in one word."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
