"""Fit the model of products that the package ships to everything that was measured."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from study import H200_L2_BYTES, Learned, as_model, carry_to_h100, fit_gpus, fit_rates, hold_out, spread_of

from costmodel.benchmark._pose_products import WHOLE_SMS
from costmodel.products._measured import read_measured

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def main() -> None:
    options = _options()
    measured = read_measured(options.measured)
    rates = fit_rates(measured, WHOLE_SMS, H200_L2_BYTES, 0)
    there = carry_to_h100(rates)
    gpus = [Learned.of(measured, rates, WHOLE_SMS)]
    if options.other:  # rates that are fitted to so few products tell less than those of the datasheet
        gpus.append(Learned.of(read_measured(options.other), there, WHOLE_SMS))
    say("described")
    # The spread is that of products whose family was held out, with one seed; the trees are fitted to all.
    ((_, blind),) = hold_out(gpus[:1], gpus, 0)
    errors = gpus[0].log_s - blind
    devices = {H100: (WHOLE_SMS, there), H200: (WHOLE_SMS, rates)}
    booster = fit_gpus([(each, np.ones(len(each.log_s), bool)) for each in gpus], 0)
    model = as_model(booster, devices, spread_of(measured.kernels, errors))
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
