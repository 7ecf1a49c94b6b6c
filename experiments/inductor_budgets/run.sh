#!/usr/bin/env bash
# On a machine with a GPU and 16 cores: ten minutes for about five networks; options of run.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-python}" experiments/inductor_budgets/run.py --out out/inductor_budgets "$@"
