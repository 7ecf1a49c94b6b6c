#!/usr/bin/env bash
# Judge first choices on products of families that were held out, and draw them over SMs; some 6 minutes of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=datasets/products-sm-budgets
other=()
[ -e "$data/h100.parquet" ] && other=(--other "$data/h100.parquet")
python experiments/products/judge.py "$data/h200.parquet" "${other[@]}" --out experiments/products "$@"
python experiments/products/plot.py experiments/products/result.json --out experiments/products/quality.png
