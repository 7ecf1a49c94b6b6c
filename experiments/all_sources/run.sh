#!/usr/bin/env bash
# About twenty minutes with 16 cores and an NVIDIA GPU; options of run.py may follow. The same command goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/all_sources
mkdir -p out
datasets="datasets/sm-budgets datasets/cuda-sm-budgets datasets/triton-sm-budgets"
# shellcheck disable=SC2086 (three words)
"${PYTHON:-python}" -m costmodel dataset merge --force $datasets --out out/all-sources --card configs/cards/sm-budgets.toml
"${PYTHON:-python}" -m costmodel train out/all-sources --out out/all-sources.costmodel
"${PYTHON:-python}" $here/run.py --out $here/measured.jsonl --model out/all-sources.costmodel "$@"
exec "${PYTHON:-python}" $here/report.py --json $here/result.json
