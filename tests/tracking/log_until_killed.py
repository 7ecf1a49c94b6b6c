"""Begins a run in the store that is named, says so, and waits to be killed."""

import sys
import time

from costmodel.tracking import Metric, MlflowTracker, tracked_run

with tracked_run(MlflowTracker(sys.argv[1]), sys.argv[2], "killed") as run:
    run.log([Metric("trial/latency_us", 5.0)])
    print(run.run_id, flush=True)
    time.sleep(600)
