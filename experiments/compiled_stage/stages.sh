#!/usr/bin/env bash
# stages.sh PART [OPTIONS]: replay searches of `tune` with and without the compiled stage on a part of the sampled pool,
# choose, or on the fresh one. Two seconds of a core for each task, recipe and seed, and the fits of shortlist.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/compiled_stage
part=$1
shift
exec "${PYTHON:-python}" $here/stages.py "$part" --json "$here/stages_$part.json" "$@"
