#!/usr/bin/env bash
# Four minutes with 16 cores and an NVIDIA GPU; options of measure.py may follow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/lanes
"${PYTHON:-python}" $here/measure.py --out out/lanes "$@"
cp out/lanes/lanes.jsonl $here/measured.jsonl
exec "${PYTHON:-python}" $here/report.py --json $here/result.json
