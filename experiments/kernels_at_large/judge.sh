#!/usr/bin/env bash
# Judge choices among configs of kernels of kinds that were left out. Some twenty minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/kernels_at_large/judge.py --config experiments/kernels_at_large/judge.toml \
  --json experiments/kernels_at_large/result.json "$@"
