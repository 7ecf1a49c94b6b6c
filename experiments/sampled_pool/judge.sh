#!/usr/bin/env bash
# judge.sh PART RECIPES [OPTIONS]: judge the recipes of RECIPES.toml (see README.md)
# on a part, choose or report, or on the fresh pool.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/sampled_pool
part=$1 recipes=$2
shift 2
exec "${PYTHON:-python}" $here/judge.py "$part" "$here/$recipes.toml" --json "$here/${recipes}_$part.json" "$@"
