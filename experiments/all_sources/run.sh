#!/usr/bin/env bash
# About twenty minutes with 16 cores and an NVIDIA GPU; options of run.py may follow. The same command goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/all_sources
mkdir -p out
"${PYTHON:-python}" -m costmodel train sm-budgets --out out/sm-budgets.costmodel
"${PYTHON:-python}" $here/run.py --out $here/measured.jsonl --model out/sm-budgets.costmodel "$@"
exec "${PYTHON:-python}" $here/report.py --json $here/result.json
