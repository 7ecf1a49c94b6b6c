#!/usr/bin/env bash
# Fit the model that the package ships; a minute of a core.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=datasets/products-sm-budgets
other=()
[ -e "$data/h100.parquet" ] && other=(--other "$data/h100.parquet")
python experiments/products/fit.py "$data/h200.parquet" "${other[@]}" --out costmodel/products/model.npz "$@"
