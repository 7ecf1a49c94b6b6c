"""How surely must a kernel of Triton be faster than PyTorch's call to be taken untimed? See README.md here.

Products are held out as by ``fit.py --judge``.
"""

import sys
from pathlib import Path

import numpy as np
import xgboost as xgb

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from choices import WHOLE, read_table
from fit import FOLDS, fit, read_tasks
from kit.results import markdown_table

MARGINS = (1.0, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3)
_SLOWER = np.log(1.02)


def main() -> None:
    tasks = list(read_tasks(read_table()))
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for fold in range(FOLDS):
        booster = fit([each for each in tasks if each.group % FOLDS != fold])
        for task in (each for each in tasks if each.group % FOLDS == fold):
            predicted = task.known + booster.predict(xgb.DMatrix(task.X.astype(np.float32)))
            library = [i for i, each in enumerate(task.kernels) if each.backend == "torch"]
            for margin in MARGINS if library else ():
                expected = predicted + np.log(margin)
                expected[library] = predicted[library]
                chosen_s = task.log_s[int(expected.argmin())]
                of = "all SMs" if task.sms == WHOLE else "a part"
                ratios = chosen_s - task.log_s[library].min(), task.log_s.min() - chosen_s
                found.setdefault((of, margin), []).append(ratios)
    rows = []
    for (of, margin), ratios in sorted(found.items()):
        over_library, under_best = np.array(ratios).T
        slower, gain = np.mean(over_library > _SLOWER), np.exp(-over_library.mean())
        best = f"{np.exp(under_best.mean()):.3f}; {np.exp(np.quantile(under_best, 0.1)):.3f}"
        rows.append([of, f"{margin:.2f}", f"{slower:.1%}", f"{gain:.3f}", best])
    heads = ["on", "margin", "over 2% slower than PyTorch's call", "PyTorch's call / chosen", "best / chosen"]
    print(markdown_table(heads, rows))


if __name__ == "__main__":
    main()
