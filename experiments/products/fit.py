"""Fit the model of products that the package ships to everything that was measured."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from judge import FAMILIES, L2_BYTES
from kit.results import say
from rules import WHOLE
from study import Learned, as_model, fit_rates, read_measured, spread_of

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def main() -> None:
    options = _options()
    measured = read_measured(options.measured)
    rates = fit_rates(measured, WHOLE, L2_BYTES, 0)
    devices = {H100: (WHOLE, rates)}
    if options.h200:
        devices[H200] = (WHOLE, fit_rates(read_measured(options.h200), WHOLE, L2_BYTES, 0))
    learned = Learned.of(measured, rates, WHOLE)
    say("described")
    # The spread of products whose family was held out, with one seed; the trees are fitted to all.
    families, log_s = measured.rows.family.to_numpy(), np.log(measured.rows.seconds.to_numpy(np.float64))
    errors = np.full(len(log_s), np.nan)
    for names in FAMILIES:
        asked = np.isin(families, names)
        if asked.any():
            errors[asked] = log_s[asked] - learned.predict(learned.fit(~asked, measured, 0), asked)[1]
    every = np.ones(len(log_s), bool)
    model = as_model(learned.fit(every, measured, 0), devices, spread_of(measured.kernels, errors))
    model.save(options.out)
    say(f"{options.out}: {options.out.stat().st_size / 1024:.0f} KiB")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, nargs="+", help="tables of an H100")
    parser.add_argument("--h200", type=Path, nargs="*", default=[], help="tables of an H200")
    parser.add_argument("--out", type=Path, required=True, help="file of the model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
