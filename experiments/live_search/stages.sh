#!/usr/bin/env bash
# On a machine with a GPU; options of stages.py may follow, such as --shard 0/2 and --time-limit SECONDS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=experiments/live_search
exec "${PYTHON:-python}" $here/stages.py --config $here/stages.toml "$@"
