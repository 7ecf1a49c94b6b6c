"""``costmodel tune`` for several SM budgets at once."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.cli._output import console, progress, write_json
from costmodel.cli._tracking import TrialLog
from costmodel.cli._tune_request import TuneRequest
from costmodel.cli._tune_setup import open_space, quieten_optuna
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.cli._tune_budgets_report import BudgetsAnswer
    from costmodel.cli._tune_setup import AnyRunner
    from costmodel.records import Platform
    from costmodel.search import BudgetsResult, BudgetsSampler, BudgetsTrial, Objective
    from costmodel.tracking import RunLog
    from costmodel.transfer import TransferModel

# Tried on a device where the SM budgets are left to this command, next to the whole device.
_BUDGETS = (1, 2, 4, 8, 16, 32, 48, 64, 96)


def tune_for_several(
    runner: "AnyRunner",
    model: "TransferModel | None",
    knowledge: dict[str, str],
    request: TuneRequest,
    run: "RunLog",
) -> None:
    """Search, choose kernels from what was measured, and report."""
    from costmodel.cli._tune_budgets_report import (
        budgets_json,
        budgets_page,
        draw_budgets,
        print_budgets_report,
    )
    from costmodel.collect import ReplayRunner
    from costmodel.search import (
        describe_budgets_search,
        describe_page,
        save_dispatch_table,
        write_report,
    )

    sampler = _sampler(runner, model, knowledge, request)
    trials = TrialLog(run, [platform.sms_granted for platform in sampler.space.platforms])
    answer = _answer(runner, _search(runner, sampler, request, trials), request)
    print_budgets_report(answer)
    outputs = request.outputs
    write_json(outputs.json, budgets_json(answer))
    if outputs.plot or isinstance(runner, ReplayRunner):
        name = f"tune-{request.workload}-{len(answer.result.platforms)}budgets.png"
        draw_budgets(outputs.plot or Path("out") / name, answer)
    if outputs.dispatch:
        save_dispatch_table(answer.table, outputs.dispatch)
        console.print(f"Dispatch table: {outputs.dispatch}", soft_wrap=True, highlight=False)
    page = budgets_page(answer)
    if outputs.report:
        write_report(page, outputs.report)
        console.print(f"Report: {outputs.report}", soft_wrap=True, highlight=False)
    run.log(describe_budgets_search(answer.result, answer.ranges, trials.told))
    run.log(describe_page(page))


def _sampler(
    runner: "AnyRunner", model: "TransferModel | None", knowledge: dict[str, str], request: TuneRequest
) -> "BudgetsSampler":
    """What proposes kernels for these budgets."""
    from costmodel.search import BudgetsSampler, SearchGoal
    from costmodel.spaces import BudgetsSpace

    platforms = _platforms(runner, request)
    one = request.portfolio is None and request.free_sms is None
    return BudgetsSampler(
        BudgetsSpace(open_space(runner, platforms, request.workload), platforms),
        _objective(request, platforms),
        SearchGoal.ONE_KERNEL if one else SearchGoal.PORTFOLIO,
        model,
        knowledge=knowledge,
        screened=max(1, request.screened // len(platforms)),
        seed=request.seed,
    )


def _platforms(runner: "AnyRunner", request: TuneRequest) -> "list[Platform]":
    """The platforms of the budgets, by granted SMs; freed SMs are counted from the whole device.

    Raises:
        CostModelError: A budget cannot be granted.
    """
    from costmodel.collect import ReplayRunner

    if request.sms:
        found = [runner.platform(sms) for sms in request.sms]
    elif isinstance(runner, ReplayRunner):
        found = [runner.platform(sms) for sms in runner.budgets]
    else:
        found = [runner.platform()]
        for sms in _BUDGETS:
            with suppress(CostModelError):  # a budget that cannot be granted here
                found.append(runner.platform(sms))
    if request.free_sms is not None:
        found.append(runner.platform())
    return [platform for _, platform in sorted({p.sms_granted: p for p in found}.items())]


def _objective(request: TuneRequest, platforms: "list[Platform]") -> "Objective":
    """The objective, its weights in the order of the platforms.

    Raises:
        CostModelError: There is no such objective, or the weights do not fit.
    """
    from costmodel.search import Objective, ObjectiveName

    name = request.objective or ObjectiveName.WORST_REGRET.value
    if name not in (known := [objective.value for objective in ObjectiveName]):
        raise CostModelError(f"--objective must be one of {', '.join(known)}, but got {name!r}.")
    weights = request.weights
    if len(weights) == len(request.sms):
        weights = tuple(weight for _, weight in sorted(zip(request.sms, weights, strict=True)))
    return Objective.make(ObjectiveName(name), len(platforms), weights or None)


def _search(
    runner: "AnyRunner", sampler: "BudgetsSampler", request: TuneRequest, trials: TrialLog
) -> "BudgetsResult":
    """Tune, with a progress bar; in a study that is kept at a place, if one is given."""
    from costmodel.search import open_study, tune_budgets

    goal = f"{sampler.known.goal.name.lower()}-{sampler.known.objective.name.value}"
    quieten_optuna()
    study = open_study(request.study, f"tune-{sampler.space.space_id}-{goal}")
    with progress() as bar:
        total = min(request.trials, sampler.space.size or request.trials)
        budgets = ", ".join(str(platform.sms_granted) for platform in sampler.space.platforms)
        task = bar.add_task(f"measuring on {budgets}", total=total)

        def on_trial(trial: "BudgetsTrial") -> None:
            bar.advance(task)
            trials.add(trial)

        return tune_budgets(runner, sampler, request.trials, study=study, on_trial=on_trial)


def _answer(runner: "AnyRunner", result: "BudgetsResult", request: TuneRequest) -> "BudgetsAnswer":
    """The kernels chosen, and latency over SMs: what a replay recorded, or what the search measured."""
    from costmodel.cli._tune_budgets_report import BudgetsAnswer
    from costmodel.collect import ReplayRunner
    from costmodel.search import recorded_curves, searched_curves

    most = request.portfolio or (1 if request.free_sms is None else len(result.platforms))
    ranges = result.portfolio(most)
    table = result.dispatch_table(ranges)
    if isinstance(runner, ReplayRunner):
        curves = recorded_curves(runner, table.kernel_for)
    else:
        curves = searched_curves(result, ranges)
    free = None if request.free_sms is None else result.free_sms(request.free_sms)
    return BudgetsAnswer(result, ranges, most, table, free, curves)
