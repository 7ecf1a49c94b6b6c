#!/usr/bin/env bash
# judge.sh PART [OPTIONS]: judge the recipes of judge.toml on a part, `choose` or `report`; ten minutes of a core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/sampled_pool
part=$1
shift
exec "${PYTHON:-python}" $here/judge.py "$part" $here/judge.toml --json "$here/judged_$part.json" "$@"
