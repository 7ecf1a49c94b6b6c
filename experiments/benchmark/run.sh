#!/usr/bin/env bash
# Some eight minutes of a core; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/benchmark
OMP_NUM_THREADS=1 exec "${PYTHON:-python}" $here/run.py --out $here "$@"
