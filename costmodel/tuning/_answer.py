"""The answer of a search, in sentences."""

from collections.abc import Iterator, Sized

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.search._objective import FreeSms
from costmodel.search._portfolio import served_s
from costmodel.search._result import SearchResult
from costmodel.tuning._findings import (
    BEST_KNOWN,
    LIBRARY,
    WHOLE_CHOICE,
    Findings,
    budget,
    decisions,
    microseconds,
    origin,
)


def answer(found: Findings) -> tuple[str, ...]:
    """What to run and how it compares, what the kernels are, and where the answer came from."""
    compared = _for_one(found) if len(found.search.sms) == 1 else _for_several(found)
    return (
        *compared,
        *_sources(found),
        *_library(found),
        *_finalists(found.search),
        *_ties(found.search),
        *_drifts(found.search),
        *found.remarks,
        *origin(found.search.provenance),
    )


def _for_one(found: Findings) -> Iterator[str]:
    best, platform = found.search.best, found.search.platforms[0]
    where = f"{budget(platform)} of {platform.device.name}"
    sms, best_s = platform.sms_granted, best.latency_s[0]
    known = {label: at[sms] for label, at in found.others.items() if sms in at}
    gains = ""
    if WHOLE_CHOICE in known and sms < platform.device.sms:
        gains += f", {known[WHOLE_CHOICE] / best_s:.2f}x as fast as the {WHOLE_CHOICE}"
    if BEST_KNOWN in known:
        excess = best_s / known[BEST_KNOWN] - 1
        gains += f", {100 * excess:.1f} % above the {BEST_KNOWN}" if excess > 0 else f", the {BEST_KNOWN}"
    yield f"Run {_name(found, found.ranges[0].kernel)}: {microseconds(best_s)} us on {where}{gains}."
    yield f"It is {decisions(best.candidate)}."


def _for_several(found: Findings) -> Iterator[str]:
    search = found.search
    kernels = sorted({part.kernel for part in found.ranges})
    names = ", ".join(sorted(_name(found, kernel) for kernel in kernels))
    device = search.platforms[-1].device.name
    regret = search.regret_of(found.ranges)
    at_each = f"at each of the {len(search.sms)} SM budgets, latency is"
    yield f"Run {names} on {device}: {at_each} {_describe_excess(regret, 'best measured')} there."
    if found.best_known:
        best_s = np.array([found.best_known[sms] for sms in search.sms])
        excess = (1.0 + regret) * search.latency_s.min(axis=0) / best_s - 1.0
        yield f"Compared with the dataset, it is {_describe_excess(excess, 'best recorded')} there."
    yield from _whole_choice(search)
    if found.free:
        yield _freed(found, found.free)
    for kernel in kernels:
        yield f"{_name(found, kernel)} is {decisions(search.trials[kernel].candidate)}."


def _describe_excess(excess: FloatArray, best: str) -> str:
    """How far latencies are above others, over SM budgets."""
    mean = np.expm1(np.log1p(excess).mean())
    return f"at most {100 * excess.max():.1f} % (geometric mean: {100 * mean:.1f} %) above the {best}"


def _whole_choice(search: SearchResult) -> Iterator[str]:
    """What the kernel costs that is best on most SMs, where it works everywhere."""
    whole = int(search.latency_s[:, -1].argmin())
    excess = search.latency_s[whole] / search.latency_s.min(axis=0) - 1.0
    if np.isfinite(excess).all():
        best = f"The kernel that is fastest on {search.sms[-1]} SMs, run at all of these SM budgets,"
        yield f"{best} is {_describe_excess(excess, 'best measured')} there."


def _sources(found: Findings) -> Iterator[str]:
    """How the best kernels of several sources compare, in the geometric mean over SM budgets."""
    search = found.search
    yield from (f"{name} was left out: {reason}" for name, reason in found.left_out.items())
    of_source: dict[str, list[int]] = {}
    for i, trial in enumerate(search.trials):
        of_source.setdefault(trial.candidate.source, []).append(i)
    if len(of_source) == 1:
        return
    overall_s = search.latency_s.min(axis=0)
    best_s = {source: search.latency_s[rows].min(axis=0) for source, rows in of_source.items()}
    ratio = {source: float(np.exp(np.log(s / overall_s).mean())) for source, s in best_s.items()}
    ordered = sorted(ratio, key=ratio.__getitem__)
    told = [f"{each} {ratio[each]:.2f}x" if np.isfinite(ratio[each]) else f"{each} none" for each in ordered]
    where = _mean_over(search.sms)
    yield f"Latency of the best kernel of each source over the best of all{where}: {', '.join(told)}."


def _library(found: Findings) -> Iterator[str]:
    """How long the library takes where it was not asked for."""
    search, known = found.search, found.others.get(LIBRARY, {})
    at = [i for i, sms in enumerate(search.sms) if sms in known]
    if at:
        chosen_s = served_s(search.latency_s, found.ranges)[at]
        library_s = np.array([known[search.sms[i]] for i in at])
        ratio = np.exp(np.log(library_s / chosen_s).mean())
        where = _mean_over(library_s)
        yield f"The library, which was not asked for, takes {ratio:.2f}x as long{where}."


def _mean_over(budgets: Sized) -> str:
    """What a figure of all of them is."""
    return "" if len(budgets) == 1 else ", in the geometric mean over SM budgets"


def _ties(search: SearchResult) -> Iterator[str]:
    """That the model could not tell what to measure first, where it could not."""
    if (tied := search.trials[0].tied) > 1:
        yield f"The model scored {tied} candidates alike at first, and chose among them at random."


def _finalists(search: SearchResult) -> Iterator[str]:
    """What was measured beside others."""
    if search.finalists:
        yield (
            "Others may have measured on the device meanwhile: "
            f"the {len(search.finalists)} best kernels were measured again alone."
        )


def _drifts(search: SearchResult) -> Iterator[str]:
    """That all measured times changed while the search ran, where they did."""
    for drift in search.drifts:
        yield (
            f"Measured times drifted by x{drift.ratio:.2f} from trial {drift.since} on, and earlier ones are "
            "multiplied by that: look for other clocks, software or neighbours."
        )


def _freed(found: Findings, free: FreeSms) -> str:
    """The fewest SMs that are enough, in a sentence."""
    search = found.search
    few, whole = search.sms[free.budget], search.sms[-1]
    return (
        f"{few} of {whole} {found.unit} are enough: {_name(found, free.kernel)} runs there in "
        f"{microseconds(search.latency_s[free.kernel, free.budget])} us, {100 * free.cost:+.1f} % against "
        f"the best on {whole}; {whole - few} are free."
    )


def _name(found: Findings, kernel: int) -> str:
    """Short name of a trial's kernel."""
    return found.search.trials[kernel].candidate.config.config_id[:8]
