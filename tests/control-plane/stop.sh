#!/usr/bin/env bash
# Ends the control plane of the folder RUN (default: run) by its pid and waits until it is gone.
set -u
cd "$(dirname "$0")" || exit 1
RUN=${RUN:-$PWD/run}
. ./alive.sh
pid=$(cat "$RUN/pid" 2>/dev/null) || { echo "no pid file"; exit 0; }
kill -TERM "$pid" 2>/dev/null || { rm -f "$RUN/pid"; exit 0; }
for _ in $(seq 1 300); do alive "$pid" || { rm -f "$RUN/pid"; echo stopped; exit 0; }; sleep 0.1; done
kill -KILL "$pid" 2>/dev/null; rm -f "$RUN/pid"; echo killed; exit 1
