#!/usr/bin/env bash
# Minutes on two cores. First the shots on sm-budgets; then, if its folder is given first, Kernel Tuner's caches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/few_shot
costmodel="${COSTMODEL:-costmodel}"
$costmodel evaluate --config $here/shots.toml --json out/few_shot/shots.json --out out/few_shot
cp out/few_shot/shots.png out/few_shot/by_shots.csv $here/
if [ $# -gt 0 ]; then
  exec "${PYTHON:-python}" $here/run.py "$@" --json $here/result.json
fi
