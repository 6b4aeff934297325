#!/usr/bin/env bash
# RayService: Running, upgrade NewCluster; with `./start.sh --operator-feature-gates RayServiceIncrementalUpgrade=true` also the incremental upgrade.
set -uo pipefail
cd "$(dirname "$0")/.."; RUN=${RUN:-$PWD/run}; export PATH="$PWD/bin:$PATH" KUBECONFIG=$RUN/kubeconfig
NS=service16; kubectl create ns $NS >/dev/null
k() { kubectl -n $NS "$@"; }
wait_for() { # what jsonpath regex seconds
  local v i t=$(date +%s.%N); for i in $(seq 1 $(( $4 * 5 ))); do v=$(k get $1 -o jsonpath="$2" 2>/dev/null); [[ $v =~ $3 ]] && { printf 'ok   %s -> %s (%.1f s)\n' "$1" "$v" "$(echo "$(date +%s.%N)-$t"|bc)"; return 0; }; sleep 0.2; done
  echo "FAIL $1 = '$v', wanted $3"; return 1; }
svc() { # name image upgradeStrategy
cat <<Y
apiVersion: ray.io/v1
kind: RayService
metadata: {name: $1}
spec:
  upgradeStrategy: $3
  serveConfigV2: |
    applications:
    - {name: app, import_path: a.b, route_prefix: /app, deployments: [{name: d, num_replicas: 2}]}
  rayClusterConfig:
    rayVersion: '2.55.0'
    enableInTreeAutoscaling: true
    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: ray-head, image: 'rayproject/ray:$2'}]}}}
    workerGroupSpecs: [{groupName: w, replicas: 1, minReplicas: 1, maxReplicas: 5, rayStartParams: {}, template: {spec: {containers: [{name: ray-worker, image: 'rayproject/ray:$2'}]}}}]
---
Y
}
active() { k get rayservice $1 -o jsonpath='{.status.activeServiceStatus.rayClusterName}'; }
upgrade() { # name strategy seconds
  local a; a=$(active $1); svc $1 2.55.1 "$2" | k apply -f - >/dev/null
  wait_for rayservice/$1 '{.status.conditions[?(@.type=="UpgradeInProgress")].status}' True 10
  wait_for rayservice/$1 '{.status.conditions[?(@.type=="UpgradeInProgress")].status}' False $3
  [ "$(active $1)" != "$a" ] && echo "ok   $1 active cluster $a -> $(active $1)" || echo "FAIL $1 still on $a"; }
svc plain 2.55.0 '{type: NewCluster}' | k apply -f - >/dev/null
wait_for rayservice/plain '{.status.serviceStatus}' Running 30
wait_for rayservice/plain '{.status.conditions[?(@.type=="Ready")].status}' True 15
upgrade plain '{type: NewCluster}' 40
if kubectl get crd gateways.gateway.networking.k8s.io >/dev/null 2>&1; then
  U='{type: NewClusterWithIncrementalUpgrade, clusterUpgradeOptions: {gatewayClassName: fake, stepSizePercent: 25, intervalSeconds: 1, maxSurgePercent: 50}}'
  svc incr 2.55.0 "$U" | k apply -f - >/dev/null
  wait_for rayservice/incr '{.status.serviceStatus}' Running 40
  wait_for rayservice/incr '{.status.activeServiceStatus.rayClusterName}' incr- 40
  wait_for rayservice/incr '{.status.conditions[?(@.type=="UpgradeInProgress")].status}' False 20
  : > "$RUN/incr.on"; : > "$RUN/incr.txt"
  while [ -f "$RUN/incr.on" ]; do k get rayservice incr -o jsonpath='{.status.activeServiceStatus.targetCapacity}:{.status.activeServiceStatus.trafficRoutedPercent}/{.status.pendingServiceStatus.targetCapacity}:{.status.pendingServiceStatus.trafficRoutedPercent}{"\n"}' >> "$RUN/incr.txt"; sleep 0.2; done &
  upgrade incr "$U" 120; rm -f "$RUN/incr.on"; wait
  echo "     capacity:traffic active/pending: $(uniq "$RUN/incr.txt" | paste -sd' ')"
fi
t=$(date +%s.%N); k delete rayservice --all >/dev/null; echo "     RayServices deleted (finalizer) in $(echo "$(date +%s.%N)-$t"|bc) s"
kubectl delete ns $NS >/dev/null
