"""A service for tests: a process of its own that appends the latency of each request to a file.

What a request takes is drawn, not timed, so that a test holds on any machine: 1 ms and a thin tail, more by
the factor in the file ``disturbed`` as long as that is there.
"""

import random
import sys
import time
from pathlib import Path

log, disturbed = Path(sys.argv[1]), Path(sys.argv[2])
draw = random.Random(0)
with log.open("a", buffering=1) as out:
    while True:
        factor = float(disturbed.read_text() or 1.0) if disturbed.exists() else 1.0
        out.write(f"{factor * 1e-3 * (1.0 + draw.expovariate(100.0)):.9f} {time.time():.3f}\n")
        time.sleep(0.0005)
