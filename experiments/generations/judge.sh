#!/usr/bin/env bash
# Judge latencies of calls on generations of GPUs that are left out. Needs `pip install --no-deps
# aiconfigurator-core==0.12.0`; minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/generations/judge.py --config experiments/generations/judge.toml \
    --out experiments/generations/result.json "$@"
