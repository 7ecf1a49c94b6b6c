#!/usr/bin/env bash
# What reading takes on a first call; needs Triton and no GPU. A minute of two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/read_facts/first_call.py --config experiments/read_facts/first_call.toml \
  --json experiments/read_facts/first_call.json "$@"
