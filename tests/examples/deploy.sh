#!/usr/bin/env bash
# What can be checked of deploy/ without containers and without Slurm: the syntax of the script and
# its help, and that the compose file names what there is.
#   deploy.sh SOURCE
set -uo pipefail
bash -n "$1/deploy/cluster.slurm" || exit 1
help=$("$1/deploy/cluster.slurm" 2>&1)
[ $? = 2 ] && grep -q 'sbatch -N 4 deploy/cluster.slurm' <<<"$help" || exit 1
if command -v docker >/dev/null && docker compose version >/dev/null 2>&1; then
  docker compose -f "$1/deploy/compose.yaml" config --quiet || exit 1
fi
if python3 -c 'import yaml' 2>/dev/null; then
  python3 - "$1/deploy/compose.yaml" <<'PY' || exit 1
import sys, yaml
services = yaml.safe_load(open(sys.argv[1]))["services"]
tasks = {n: s["command"] for n, s in services.items() if "command" in s}
assert len({c[c.index("--cluster") + 1] for c in tasks.values()}) == 1, tasks
PY
fi
