#!/usr/bin/env bash
# N RayClusters created at once in one kubectl apply: time to all ready, memory; then delete all.
set -euo pipefail
cd "$(dirname "$0")/.."
N=${1:-100}; NS=${2:-load}
RUN=${RUN:-$PWD/run}; export PATH="$PWD/bin:$PATH" KUBECONFIG=$RUN/kubeconfig
pid=$(cat "$RUN/pid")
S=$(go list -m -f '{{.Dir}}' github.com/ray-project/kuberay/ray-operator)/config/samples/ray-cluster.sample.yaml
kubectl create ns "$NS" >/dev/null 2>&1 || true
f=$(mktemp)
for i in $(seq 1 "$N"); do sed "s/name: raycluster-kuberay/name: rc-$i/" "$S" >> "$f"; echo '---' >> "$f"; done
rss() { awk '/VmRSS|VmHWM/{printf "%s %d MiB  ",$1,$2/1024}' /proc/$pid/status; echo; }
cpu() { awk '{print ($14+$15)/100}' /proc/$pid/stat; }
echo -n "before: "; rss; c0=$(cpu)
t0=$(date +%s.%N)
kubectl -n "$NS" create -f "$f" > /dev/null
t1=$(date +%s.%N)
while :; do
  r=$(kubectl -n "$NS" get rayclusters -o jsonpath='{range .items[*]}{.status.state}{"\n"}{end}' | grep -c '^ready$' || true)
  [ "$r" -ge "$N" ] && break
  sleep 0.5
done
t2=$(date +%s.%N)
echo "create $N: $(echo "$t1-$t0"|bc)s  all ready: $(echo "$t2-$t0"|bc)s  cpu used: $(echo "$(cpu)-$c0"|bc)s pods: $(kubectl -n "$NS" get pods --no-headers | wc -l)"
echo -n "ready: "; rss
t3=$(date +%s.%N)
kubectl -n "$NS" delete rayclusters --all --wait=false > /dev/null
while [ "$(kubectl -n "$NS" get pods --no-headers 2>/dev/null | wc -l)" -gt 0 ]; do sleep 0.5; done
echo "delete all, pods gone: $(echo "$(date +%s.%N)-$t3"|bc)s; left: $(kubectl -n "$NS" get rayclusters,pods,svc --no-headers 2>/dev/null | wc -l)"
echo -n "after: "; rss
rm -f "$f"
