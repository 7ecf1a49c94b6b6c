"""Fit the model of products that the package ships to everything that was measured."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from judge import hold_out
from kit.results import say
from study import (
    H100_L2_BYTES,
    H200_L2_BYTES,
    Learned,
    as_model,
    carry_to_h100,
    fit_rates,
    spread_of,
)

from costmodel.benchmark._pose_products import WHOLE_SMS
from costmodel.products._measured import read_measured

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def main() -> None:
    options = _options()
    measured = read_measured(options.measured)
    rates = fit_rates(measured, WHOLE_SMS, H200_L2_BYTES, 0)
    there = carry_to_h100(rates)
    if options.other:
        there = fit_rates(read_measured(options.other), WHOLE_SMS, H100_L2_BYTES, 0)
    learned = Learned.of(measured, rates, WHOLE_SMS)
    say("described")
    # The spread is that of products whose family was held out, with one seed; the trees are fitted to all.
    log_s = np.log(measured.rows.seconds.to_numpy(np.float64))
    errors = log_s - hold_out(measured, learned, 0)[1]
    every = np.ones(len(log_s), bool)
    devices = {H100: (WHOLE_SMS, there), H200: (WHOLE_SMS, rates)}
    model = as_model(learned.fit(every, measured, 0), devices, spread_of(measured.kernels, errors))
    model.save(options.out)
    say(f"{options.out}: {options.out.stat().st_size / 1024:.0f} KiB")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, nargs="+", help="tables of an H200")
    parser.add_argument("--other", type=Path, nargs="*", default=[], help="tables of an H100")
    parser.add_argument("--out", type=Path, required=True, help="file of the model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
