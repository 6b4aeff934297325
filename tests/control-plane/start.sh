#!/usr/bin/env bash
# Builds when needed (not with NOBUILD=1), starts the control plane in the background, waits for READY and prints that line.
# RUN is the folder of its files (default: run), PORT the apiserver's port (default: a free one).
# Extra arguments go to the program. Files: pid kubeconfig kubeconfig-<user> out.log components.log audit.log (writes to RayClusters), and env to be sourced
# by a shell that runs the tests.
set -euo pipefail
cd "$(dirname "$0")"
RUN=${RUN:-$PWD/run}
PORT=${PORT:-0}
. ./alive.sh
mkdir -p "$RUN"
RUN=$(cd "$RUN" && pwd)
if [ -f "$RUN/pid" ] && alive "$(cat "$RUN/pid")"; then
  echo "already running: pid $(cat "$RUN/pid")"; exit 0
fi
[ -n "${NOBUILD:-}" ] || ./build.sh
operators=$(./operators.sh)
rm -f "$RUN/kubeconfig"* "$RUN/env" "$RUN/pid" "$RUN/audit"*
: > "$RUN/components.log"; : > "$RUN/out.log"
# Interrupted while it waits, it takes the program with it.
trap 'if [ -n "${!:-}" ]; then kill -TERM "$!" 2>/dev/null || true; wait "$!" || true; rm -f "$RUN/pid"; fi; exit 143' INT TERM
setsid nohup ./bin/controlplane --port "$PORT" --kubeconfig-out "$RUN/kubeconfig" --log-file "$RUN/components.log" \
  --apiserver-arg=--audit-policy-file="$PWD/audit.yaml" --apiserver-arg=--audit-log-path="$RUN/audit.log" "$@" > "$RUN/out.log" 2>&1 < /dev/null &
echo $! > "$RUN/pid"
pid=$!
for _ in $(seq 1 1800); do
  if ready=$(grep '^READY' "$RUN/out.log"); then
    control=${ready#* control=}
    {
      echo "export RAYGATE_BED='$RUN'"
      echo "export RAYGATE_BED_KUBECONFIG='$RUN/kubeconfig'"
      echo "export RAYGATE_BED_CONTROL='${control%% *}'"
      echo "export RAYGATE_BED_AUDIT='$RUN/audit.log'"
      echo "export RAYGATE_BED_KUBECTL='$PWD/bin/kubectl'"
      echo "export RAYGATE_BED_OPERATOR='${operators%%$'\n'*}'"
      echo "export RAYGATE_BED_SAMPLES='$(sed 's|$|/config/samples|' <<< "$operators" | paste -sd:)'"
    } > "$RUN/env"
    echo "$ready"; exit 0
  fi
  alive "$pid" || { echo "died:"; tail -n 20 "$RUN/out.log"; tail -n 20 "$RUN/components.log"; rm -f "$RUN/pid"; exit 1; }
  sleep 0.1
done
echo "not ready after 180s"; tail -n 20 "$RUN/out.log"; exit 1
