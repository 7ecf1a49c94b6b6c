"""Draw the kernels of a campaign as MetaSchedule's own evolutionary search does, without any model of ours.

For each workload, stock ``EvolutionarySearch`` samples its initial population and evolves it once under a
random cost model. What it proposes is stored as the campaign's candidates, which ``costmodel collect run``
then measures. Needs TVM, but no GPU.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.errors import CostModelError
from costmodel.kernels import open_space
from costmodel.kernels._design_space import DistinctPrograms
from costmodel.kernels.metaschedule._tvm_start import register_tensor_intrinsics
from costmodel.records import Candidate, Workload

# Stock proposes this many for each kernel that is kept: some lower to the same program.
SPARE = 1.5
POPULATION = 96
# Rules that are tried: those for CUDA cores and, for products in float16, those for Tensor Cores.
RULES = ("cuda", "cuda-tensorcore")


def draw(workload: Workload, count: int, seed: int) -> list[Candidate]:
    """Draw kernels of one workload.

    Args:
        workload: The workload.
        count: Number of kernels. Fewer are returned if stock proposes fewer different programs.
        seed: Seed of MetaSchedule's random choices.
    """
    from tvm.s_tir import meta_schedule as ms

    register_tensor_intrinsics()
    space = open_space(workload, "cuda")
    has_tensor_cores = any(sketch.tensorized for sketch in space.sketches)
    rules = RULES if has_tensor_cores else RULES[:1]
    found: list[Candidate] = []
    programs = DistinctPrograms(space, [])
    for part, name in enumerate(rules, 1):
        wanted = round(SPARE * count / len(rules))
        context = ms.TuneContext(
            mod=space.module,
            target=space.target,
            space_generator=ms.space_generator.PostOrderApply(
                sch_rules=name, postprocs=name, mutator_probs=name
            ),
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=POPULATION, genetic_num_iters=1, init_min_unmeasured=min(32, wanted)
            ),
            rand_state=seed,
            num_threads=1,
        )
        context.pre_tuning(wanted, wanted, None, ms.database.MemoryDatabase(), ms.cost_model.RandomModel())
        for proposed in context.generate_measure_candidates() or ():
            if len(found) == round(count * part / len(rules)):
                break
            try:
                candidate = space.candidate(space.config_of(proposed.sch.trace))
            except CostModelError:  # no config of our space
                continue
            if programs.add(candidate):
                found.append(candidate)
        context.post_tuning()
    return found


def main() -> None:
    """Draw what is missing in a campaign's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds")
    args = parser.parse_args()
    config, folder = find_campaign(args.campaign), CampaignFolder(args.out)
    folder.claim(config)
    missing = [each for each in config.parsed_workloads if folder.proposals(each, 0) is None]
    started = time.monotonic()
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_drawn, config, each): each for each in missing}
        for job in as_completed(jobs):
            workload = jobs[job]
            try:
                candidates = job.result()
            except Exception as error:  # noqa: BLE001 (one workload less)
                print(f"{workload.name}: {type(error).__name__}: {error}", flush=True)
                candidates = []
            folder.write_proposals(workload, 0, candidates)
            print(f"{time.monotonic() - started:4.0f} s {workload.name}: {len(candidates)}", flush=True)
            if time.monotonic() - started > args.time_limit:
                pool.shutdown(wait=False, cancel_futures=True)
                break


def _drawn(config: CampaignConfig, workload: Workload) -> list[Candidate]:
    return draw(workload, config.kernels.random, config.draw_seed(workload, 0) % 2**31)


if __name__ == "__main__":
    main()
