"""``costmodel tune`` for one SM budget."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.cli._output import console, progress, write_json
from costmodel.cli._tracking import TrialLog
from costmodel.cli._tune_request import TuneRequest
from costmodel.cli._tune_setup import open_space, quieten_optuna
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.cli._tune_setup import AnyRunner
    from costmodel.search import BudgetCurve, ModelSampler, TunedTrial, TuneResult
    from costmodel.tracking import RunLog
    from costmodel.transfer import TransferModel

_PLOT_BUDGETS = (1, 2, 4, 8, 16, 32, 64)


def tune_for_one(
    runner: "AnyRunner",
    model: "TransferModel | None",
    knowledge: dict[str, str],
    request: TuneRequest,
    run: "RunLog",
) -> None:
    """Search for the fastest kernel on one budget, and report."""
    from costmodel.cli._tune_report import as_json, as_report, draw, print_report
    from costmodel.search import ModelSampler, describe_page, describe_search, write_report

    platform = runner.platform(request.sms[0] if request.sms else None)
    space = open_space(runner, [platform], request.workload)
    sampler = ModelSampler(space, model, knowledge=knowledge, screened=request.screened, seed=request.seed)
    trials = TrialLog(run, [platform.sms_granted])
    result = _search(runner, sampler, request, request.study, trials)
    curves = _curves(runner, sampler, result, request)
    print_report(result, curves)
    outputs = request.outputs
    write_json(outputs.json, as_json(result, curves))
    if curves:
        draw(
            outputs.plot or Path("out") / f"tune-{request.workload}-{platform.sms_granted}sms.png",
            result,
            curves,
        )
    page = as_report(result, curves)
    if outputs.report:
        write_report(page, outputs.report)
        console.print(f"Report: {outputs.report}", soft_wrap=True, highlight=False)
    run.log(describe_search(result, curves, trials.told))
    run.log(describe_page(page))


def _search(
    runner: "AnyRunner",
    sampler: "ModelSampler",
    request: TuneRequest,
    place: str | None,
    trials: "TrialLog | None" = None,
) -> "TuneResult":
    """Tune, with a progress bar; in a study that is kept at a place, if one is given."""
    from costmodel.search import open_study
    from costmodel.search import tune as search

    quieten_optuna()
    study = open_study(place, f"tune-{sampler.space.space_id}")
    with progress() as bar:
        total = min(request.trials, sampler.space.size or request.trials)
        task = bar.add_task(f"measuring on {sampler.space.platform.sms_granted}", total=total)

        def on_trial(trial: "TunedTrial") -> None:
            bar.advance(task)
            if trials:
                trials.add(trial)

        return search(
            runner,
            sampler,
            request.trials,
            study=study,
            stop_gain=request.stop_gain,
            on_trial=on_trial,
        )


def _curves(
    runner: "AnyRunner", sampler: "ModelSampler", result: "TuneResult", request: TuneRequest
) -> "list[BudgetCurve]":
    """Latency over SM budgets: what a replay recorded, or what a device measures if that is wanted.

    The whole-device choice of a device is what the same search finds there.
    """
    from costmodel.collect import ReplayRunner
    from costmodel.search import CHOSEN, WHOLE_CHOICE, ModelSampler, measured_curve, recorded_curves

    if isinstance(runner, ReplayRunner):
        best = result.best.candidate
        return recorded_curves(runner, lambda _: best)
    if not (request.outputs.plot or request.outputs.report):
        return []
    space = sampler.space.on(runner.platform())
    again = ModelSampler(space, sampler.model, screened=sampler.screened, seed=sampler.seed)
    whole = _search(runner, again, request, None).best.candidate
    platforms = {space.platform.sms_granted: space.platform, result.platform.sms_granted: result.platform}
    for budget in _PLOT_BUDGETS:
        with suppress(CostModelError):  # a budget that cannot be granted here
            platform = runner.platform(budget)
            platforms.setdefault(platform.sms_granted, platform)
    chosen = {WHOLE_CHOICE: whole, CHOSEN: result.best.candidate}
    return [measured_curve(runner, label, c, list(platforms.values())) for label, c in chosen.items()]
