"""Compute again what README takes from committed results of runs that need a GPU or hours."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "live_search"))
from report import best_after, best_at, time_to
from searches import FAIR, OURS, STOCK, STOCK_BUILT

EXPERIMENTS = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    names = (
        "live_search",
        "network_on_part",
        "plugin_cost",
        "dataset_at_size",
        "kill_the_collector",
        "few_shot",
        "screening",
        "no_harm",
        "ablation",
        "all_sources",
        "kernel_tuner",
        "unrecognised_programs",
        "triton_budgets",
        "tile_synchronization",
        "placement",
        "replay_speed",
        "real_traces",
        "pipeline_throughput",
        "drift",
        "transfer",
        "irregular",
        "triton_autotune",
        "helion",
        "breadth",
        "another_gpu",
        "capacity",
        "stock_comparison",
        "foreign_spaces",
        "kill_the_workers",
        "plan_a_block",
        "multitask",
        "lanes",
        "shadow",
        "streams",
        "neighbours",
        "kernels_at_large",
    )
    results = {name: result_of(name) for name in names}
    fair = result_of("live_search", "result_fair.json")
    document = {
        "live_search": live_search(results["live_search"]),
        "live_fair": live_fair(fair),
        "live_shipped": gain(fair, STOCK),
        "live_fair_h100": live_fair(result_of("live_search", "result_fair_h100.json")),
        "network": network(results["network_on_part"]),
        "plugin_cost": plugin_cost(results["plugin_cost"]),
        "dataset_at_size": dataset_at_size(results["dataset_at_size"]),
        "kills": kills(results["kill_the_collector"]),
        "screening": screening(results["screening"]),
        "guard": results["no_harm"],
        "all_sources": results["all_sources"]["parts"],
        "kernel_tuner": results["kernel_tuner"]["pooled"],
        "programs": means_over_programs(results["unrecognised_programs"]["score_at_1"]),
        "triton": triton_budgets(results["triton_budgets"]),
        "tiles": results["tile_synchronization"]["savings"],
        "placement": placement(results["placement"]),
        "replay_speed": replayed(results["replay_speed"][-1]),
        "real_traces": what_ifs(results["real_traces"]["summary"]),
        "pipeline": pipeline(results["pipeline_throughput"]["pipelines"]),
        "drift": drift(results["drift"]),
        "transfer": {f"{row['held_out']} {row['learner']}": row for row in results["transfer"]},
        "irregular": irregular(results["irregular"]),
        "irregular_h200": irregular(result_of("irregular", "result_h200.json")),
        "irregular_devices": another_device(result_of("irregular", "result_devices.json")["another device"]),
        "autotune": results["triton_autotune"]["tuners"],
        "helion": results["helion"]["tuners"],
        "breadth": {
            "mixed": first_choices(results["breadth"]),
            **{
                name: first_choices(result_of("breadth", f"result_{name}.json"))
                for name in ("sm_budgets", "random")
            },
        },
        "another_gpu": another_gpu(results["another_gpu"]["parts_of_a_gpu"]),
        "capacity": capacity({goal["name"]: goal for goal in results["capacity"]["goals"]}),
        "foreign": {row["rule"]: row for row in results["foreign_spaces"]["summary"]["device"]},
        "stock": stock_comparison(results["stock_comparison"]),
        "workers": results["kill_the_workers"],
        "crowd": result_of("kill_the_workers", "crowd.json"),
        "multitask": results["multitask"],
        "lanes": results["lanes"],
        "shadow": shadow(results["shadow"]),
        "streams": streams(result_of("streams", "live.json"), results["streams"]["rows"]),
        "neighbours": neighbours(results["neighbours"]),
        "planned_block": part_over_whole(results["plan_a_block"]["measured_us"]),
        "ablation": {row["model"].strip(): -row.get("difference", 0.0) for row in results["ablation"]},
        "search": result_of("search_on_replay"),
        "search_whole": result_of("search_on_replay", "result_consensus.json")
        | result_of("search_on_replay", "result_whole.json"),
        "search_others": result_of("search_on_replay", "result_others.json"),
        "sampled": {row["learner"]: row for row in result_of("sampled_pool", "judge_report.json")["all"]},
        "compiled": {row["learner"]: row for row in result_of("compiled_stage", "fresh.json")["all"]},
        "whole_known": parts_of_scores(result_of("sampled_pool", "whole_fresh.json")["by_sms"]),
        "products": result_of("products")["overall"],
        "generations": of_products(result_of("generations")),
        "tables": lost(result_of("serving")),
        "networks": networks(result_of("inductor_budgets", "networks.json")),
        "at_large": results["kernels_at_large"],
        "few_shot": {row["method"]: row["after 20, median"] for row in results["few_shot"]["summary"]},
    }
    parser.parse_args().json.write_text(json.dumps(document, indent=1) + "\n")


def result_of(experiment: str, file: str = "result.json") -> Any:
    """What an experiment wrote."""
    return json.loads((EXPERIMENTS / experiment / file).read_text())


def parts_of_scores(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean Score@1 on parts of the GPU, by learner."""
    parts = [row for row in rows if row["sms_granted"] < max(each["sms_granted"] for each in rows)]
    learners = {row["learner"] for row in parts}
    return {
        name: float(np.mean([row["score_at_1"] for row in parts if row["learner"] == name]))
        for name in sorted(learners)
    }


def of_products(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Least and largest error of products on a generation of NVIDIA's that was left out, nothing measured."""
    asked = [row for row in rows if row["kind"] == "gemm" and row["method"] == "model, 0 measured"]
    errors = [row["error"] for row in asked if not row["generation"].startswith("Arc")]
    return {"least": min(errors), "largest": max(errors)}


def lost(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Share of rows of tables that are slower than the default by over 1 %."""
    ours = [found[f"{framework}, as tables have it"] for framework in ("vllm", "sglang")]
    shipped = [found[f"{framework}, table for the same sizes and GPU"] for framework in ("vllm", "sglang")]
    shares = {"ours": ours, "shipped": shipped}
    return {
        name: sum(each["slower by over 1 %"] for each in rows) / sum(each["pairs"] for each in rows)
        for name, rows in shares.items()
    }


def networks(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Latency on parts / that of max-autotune of the whole GPU, geometric means, compiled as by default."""
    whole, part, ours = "max-autotune, whole GPU", "max-autotune, part", "ours"
    cases = [
        latency_s
        for network in found
        for sms, latency_s in network["latency_s"].items()
        if int(sms) < max(network["sms"]) and {whole, ours} <= set(latency_s)
    ]
    return {
        name: {
            way: math.exp(np.mean([math.log(case[way] / case[whole]) for case in chosen]))
            for way in (ours, "default", part)
            if all(way in case for case in chosen)
        }
        for name, chosen in (("all", cases), ("with the part", [case for case in cases if part in case]))
    }


def stock_comparison(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By how much stock's best kernel is faster than the dataset's at most; mean of stock / dataset."""
    ratios = [row["stock_to_dataset"] for row in rows]
    return {"most gain": 1 / min(ratios) - 1, "geometric mean": math.exp(np.mean(np.log(ratios)))}


def first_choices(result: dict[str, Any]) -> dict[str, float]:
    """Mean Score@1 of kernel ridge by the number of workloads, with as many kernels of each as there are."""
    rows = [row for row in result["curve"] if row["learner"] == "kernel-ridge"]
    most = max(row["most_kernels"] for row in rows)
    return {str(row["workloads"]): row["score_at_1"] for row in rows if row["most_kernels"] == most}


def triton_budgets(result: dict[str, Any]) -> dict[str, Any]:
    """Score@1 by way of choosing, and the worst of all SM budgets after eight timings."""
    timed = [row for row in result["few-timed"]["timed"] if row["timed"] == 8]
    return {
        "shapes": {row["way"]: row for row in result["unseen-shapes"]["all"]},
        "parts": {row["way"]: row for row in result["unseen-shapes"]["parts of the GPU"]},
        "rules": {row["way"]: row for row in result["rules"]["all"]},
        "kernels": {row["way"]: row for row in result["unseen-kernels"]["all"]},
        "eight": {
            way: {name: max(row[name] for row in timed if row["way"] == way) for name in ("median", "p95")}
            for way in {row["way"] for row in timed}
        },
    }


def another_gpu(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median error of latencies of TVM's kernels, by move and way."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["dataset"] == "sm-budgets" and "move" in row:
            found.setdefault(row["move"], {})[row["way"]] = row["median_error"]
    return found


def capacity(goals: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """How many times as fast, and how much of the builders is used."""
    seconds = {name: goal["seconds"] for name, goal in goals.items()}
    in_turn = seconds["4 tunes one after the other, 15 builders"]
    return {
        "four": in_turn / seconds["4 at once, 15 builders"],
        "four_on_64": in_turn / seconds["4 at once, 64 builders of other machines"],
        "use": {n: goals[f"{n} at once, 15 builders"]["builder_use"] for n in ("4", "8", "16")},
        "two_gpus": {
            n: seconds[f"{n} at once, 15 builders"] / seconds[f"{n} at once, 30 builders, two GPUs"]
            for n in ("8", "16")
        },
    }


def shadow(result: dict[str, Any]) -> dict[str, Any]:
    """What a service lost beside searches with the watch and without, and how far their answers are off."""
    return {
        way: {
            "p99_rise": result["phases"][way]["p99_rise"],
            "low": result["phases"][way]["p99_rise_95"][0],
            "high": result["phases"][way]["p99_rise_95"][1],
            "worst_answer": max(answer[way] for answer in result["answers"]) - 1.0,
        }
        for way in ("beside", "watched")
    }


def streams(live: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How much faster networks were on several streams, and what schedules are worth in the model."""
    assumed = [(row["makespan_s"]["ours"], row["makespan_s"]["one"]) for row in rows]
    otherwise = [(several, one) for row in rows for one, several in row["otherwise_s"].values()]
    return live | {
        "least_faster": min(live["faster_than_one"].values()),
        "most_faster": max(live["faster_than_one"].values()),
        "slower_than_nimble": sum(each < 1 for each in live["faster_than_nimble"].values()),
        "graphs": len(rows),
        "never_slower": sum(several <= one * (1 + 1e-9) for several, one in assumed + otherwise)
        / len(assumed + otherwise),
        "longest_s": max(row["seconds"]["ours"] for row in rows),
    }


def neighbours(result: dict[str, Any]) -> dict[str, Any]:
    """How far slowdowns of kernels that were never seen are off, by the names that the documents use."""
    names = {
        "shares or waits": "formula",
        "geometric mean of shares or waits and trees, cold latencies known": "learned",
    }
    told = {
        what: {names.get(name, name): row for name, row in rows.items()}
        for what, rows in result["never_seen"].items()
    }
    return {"pairs": result["pairs"]} | told


def part_over_whole(measured_us: dict[str, float]) -> float:
    """Latency on a part of the GPU of kernels tuned for it over that of kernels tuned for the whole."""
    return measured_us["part on part"] / measured_us["whole on part"]


def placement(result: dict[str, Any]) -> dict[str, float]:
    """How many known optima and best of all placements were reached, and how far off simpler ways are."""
    published, drawn = result["published"], result["random"]
    throughput = [row for row in published if row["objective"] == "throughput"]
    return {
        "cases": len(published),
        "proven": sum(row["proven"] and abs(row["value"] - row["known"]) <= 1e-3 for row in published),
        "slowest_s": max(row["seconds"] for row in published),
        "random": drawn["cases"],
        "random_equal": drawn["equal"],
        "greedy": max(row["greedy"] / row["value"] for row in throughput),
        "prefixes_percent": max(100 * (row["prefixes"] / row["value"] - 1) for row in throughput),
    }


def replayed(row: dict[str, float]) -> dict[str, float]:
    """Time and memory of the largest graph."""
    return {"replay_s": row["replay_s"], "peak_gb": row["peak_bytes"] / 1e9}


def what_ifs(summary: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Errors of replays and predictions in percent; counts as they are."""
    counts = ("traces", "within", "pairs", "sign_right")
    unsteady = {"pairs": summary["all"]["pairs"] - summary["repeats"]["pairs"]}
    return {"unsteady": unsteady} | {
        name: {key: value if key in counts else 100 * value for key, value in row.items()}
        for name, row in summary.items()
    }


def pipeline(pipelines: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Candidates a minute, and how far latencies are from stock's on the same kernels."""
    stock, ours = pipelines["stock, one batch"], pipelines["ours, workers running"]
    rates = {
        name: {
            "per_minute": pipelines[row]["per_minute"],
            "times_stock": pipelines[row]["per_minute"] / stock["per_minute"],
        }
        for name, row in (("running", "ours, workers running"), ("cold", "ours, with start-up"))
    }
    theirs = stock["latency_s"]
    apart = {id_: abs(s / theirs[id_] - 1.0) for id_, s in ours["latency_s"].items() if id_ in theirs}
    long = [apart[id_] for id_ in apart if ours["latency_s"][id_] >= 50e-6]
    return {
        **rates,
        "stock_per_minute": stock["per_minute"],
        "difference": float(np.median(list(apart.values()))),
        "difference_of_long": float(np.median(long)),
    }


def drift(result: dict[str, Any]) -> dict[str, Any]:
    """False alarms in campaigns and searches without a drift, and when planted ones are told."""
    quiet = [*result["quiet"], *result["searches"]]
    measurements = sum(row["measurements"] for row in result["quiet"])
    planted = [row for row in result["planted"] if math.isclose(abs(np.log(row["factor"])), np.log(1.3))]
    repeats = [row for row in planted if row["repeats"]]
    return {
        "measurements": measurements,
        "false_alarms": sum(row["false_alarms"] for row in quiet),
        "by_predictions": sum(row["false_alarms_by_predictions"] for row in quiet),
        "repeated": sum(row["repeated"] for row in result["quiet"]) / measurements,
        "delay": max(row["delay_median"] for row in repeats),
        "most": max(row["delay_most"] for row in repeats),
        "found_by_predictions": max(row["found"] for row in planted if not row["repeats"]),
    }


def by(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Rows by one of their values."""
    return {row[key]: row for row in rows}


def another_device(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Choices by family and way of choosing, and errors of latency by both, on a device never seen."""
    latency = {f"{row['family']}, {row['learner']}": row for row in found["latency"]}
    return {
        "latency": latency,
        **{name: by(rows, "chosen_by") for name, rows in found.items() if name != "latency"},
    }


def irregular(result: dict[str, Any]) -> dict[str, Any]:
    """Choices and errors by part, what is held out, and way of choosing."""
    pruned, spikes, bags = (result[part] for part in ("pruned layers", "spiking networks", "lookups"))
    unseen = ("shape", "distribution")
    float16 = [gain for gain in result["borders"]["gain"] if "float16" in gain["workload"]]
    return {
        "layers": len(float16),
        "turning": sum(gain["8 SMs"] > 1.02 and gain["132 SMs"] < 0.98 for gain in float16),
        "pruned": {held: by(pruned[held], "chosen_by") for held in unseen},
        "spikes": {name: by(rows, "chosen_by") for name, rows in spikes.items() if name != "sizes"},
        "rho": min(row["rho"] for row in spikes["sizes"] if row["chosen_by"] == "stack-above-analytic"),
        "bags": {held: by(bags[held], "learner") for held in (*unseen, "sms")},
        "bags_choice": by(bags["choice, distribution"], "chosen_by"),
    }


def means_over_programs(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Mean Score@1 over programs, each the mean over its numbers of SMs, by way of choosing."""
    return {way: float(np.mean(list(of_programs(found).values()))) for way, found in scores.items()}


def of_programs(scores: dict[str, float]) -> dict[str, float]:
    """Mean of each program's tasks."""
    programs = {task.partition("@")[0] for task in scores}
    return {
        name: float(np.mean([score for task, score in scores.items() if task.startswith(f"{name}@")]))
        for name in programs
    }


def live_search(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Latencies and times of the searches, case by case and over all."""
    cases = {}
    for row in rows:
        stock, ours = row["searches"][STOCK], row["searches"][OURS]
        final_s = best_at(stock, np.inf)
        cases[f"{row['workload']} on {row['sms'] or 'all'}"] = {
            "stock_us": 1e6 * final_s,
            "stock_s": stock["seconds"],
            "ours_us": 1e6 * best_at(ours, np.inf),
            "ours_s_to_stock": time_to(ours, final_s),
        }
    return {"cases": cases, "stock": gain(rows, STOCK), "built": gain(rows, STOCK_BUILT)}


def gain(rows: list[dict[str, Any]], other: str) -> dict[str, float]:
    """What ours gives beside another search, in the cases where that was made."""
    ratios, saved = [], []
    for searches in (row["searches"] for row in rows if other in row["searches"]):
        ours, reference = searches[OURS], searches[other]
        final_s = best_at(reference, np.inf)
        ratios.append(best_at(ours, reference["seconds"]) / final_s)
        saved.append(1.0 - time_to(ours, final_s) / time_to(reference, final_s))
    return {
        "latency_ratio": float(np.exp(np.mean(np.log(ratios)))),
        "time_saved": float(np.median(saved)),
        "time_saved_at_least": min(saved),
    }


def live_fair(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What ours gives beside stock with an early model, at equal effort."""
    times, trials, saved = [], [], []
    for ours, fair in ((row["searches"][OURS], row["searches"][FAIR]) for row in rows):
        seconds, count = (min(ours[key], fair[key]) for key in ("seconds", "measured"))
        times.append(best_at(ours, seconds) / best_at(fair, seconds))
        trials.append(best_after(ours, count) / best_after(fair, count))
        final_s = best_at(fair, np.inf)
        saved.append(time_to(ours, final_s) / time_to(fair, final_s))
    return {
        "equal_times": {
            "mean": float(np.exp(np.mean(np.log(times)))),
            "least": min(times),
            "most": max(times),
        },
        "equal_trials": {
            "mean": float(np.exp(np.mean(np.log(trials)))),
            "least": min(trials),
            "most": max(trials),
        },
        "time_share": {"median": float(np.median(saved)), "most": max(saved)},
    }


def network(found: dict[str, Any]) -> dict[str, Any]:
    """Microseconds of the network by way of tuning and part of the device."""
    return {
        name: {part: 1e6 * latency_s for part, latency_s in parts.items()}
        for name, parts in found["latency_s"].items()
    }


def screening(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Seconds to describe and score all configs, and how many TVM describes in that time."""
    found = {}
    for row in rows:
        seconds = row["features_s"] + row["score_s"]
        per_store = seconds / (row["per_store_s"] / row["lowered"])
        found[row["workload"]] = {
            "features": row["features_s"],
            "seconds": seconds,
            "per-store configs": per_store,
        }
    return found


def plugin_cost(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Processor time of our cost model over stock's."""
    ratio = {
        row["workload"]: {call: row["ours"][call] / row["stock"][call] for call in ("update", "predict")}
        for row in rows
    }
    unknown = next(name for name in ratio if name.startswith("none"))
    known = [calls for name, calls in ratio.items() if name != unknown]
    return {
        "predict_smallest": min(calls["predict"] for calls in known),
        "predict_largest": max(calls["predict"] for calls in known),
        "update_smallest": min(calls["update"] for calls in known),
        "update_largest": max(calls["update"] for calls in known),
        "predict_unknown": ratio[unknown]["predict"],
        "update_unknown": ratio[unknown]["update"],
    }


def dataset_at_size(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What building and validating five and twenty million rows takes."""
    of = {row["what"]: row for row in rows if row["size"] == 5_000_000}
    built = next(row for row in rows if (row["size"], row["what"]) == (20_000_000, "dataset build"))
    return {
        "build_s": of["dataset build"]["seconds"],
        "build_gb": of["dataset build"]["peak_bytes"] / 1e9,
        "build_to_pandas": of["dataset build"]["seconds"] / of["pandas.read_csv"]["seconds"],
        "validate_s": of["dataset validate"]["seconds"],
        "build_20_s": built["seconds"],
        "build_20_gb": built["peak_bytes"] / 1e9,
    }


def kills(found: dict[str, dict[str, int]]) -> dict[str, int]:
    """Kills at random moments, and what they cost."""
    return {key: sum(each[key] for each in found.values()) for key in ("kills", "lost", "doubled")}


if __name__ == "__main__":
    main()
