#!/usr/bin/env bash
# Ten minutes on two cores, from the data of this repository; with Triton installed also what reading takes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/read_facts/run.py --json experiments/read_facts/result.json "$@"
