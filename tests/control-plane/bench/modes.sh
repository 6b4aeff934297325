#!/usr/bin/env bash
# Exercises the steering annotations, RayJob modes, scaling, quota, namespace deletion.
set -uo pipefail
cd "$(dirname "$0")/.."; RUN=${RUN:-$PWD/run}; export PATH="$PWD/bin:$PATH" KUBECONFIG=$RUN/kubeconfig
NS=modes; kubectl create ns $NS >/dev/null
k() { kubectl -n $NS "$@"; }
wait_for() { # what jsonpath regex seconds
  local v i; for i in $(seq 1 $(( $4 * 5 ))); do v=$(k get $1 -o jsonpath="$2" 2>/dev/null); [[ $v =~ $3 ]] && { echo "ok   $1 -> $v"; return 0; }; sleep 0.2; done
  echo "FAIL $1 = '$v', wanted $3"; return 1; }
rc() { # name head-annotations worker-annotations replicas
cat <<Y
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: $1}
spec:
  rayVersion: '2.46.0'
  headGroupSpec:
    rayStartParams: {}
    template: {metadata: {annotations: {$2}}, spec: {containers: [{name: ray-head, image: 'rayproject/ray:2.46.0'}]}}
  workerGroupSpecs:
  - {groupName: w, replicas: $4, minReplicas: 0, maxReplicas: 10, rayStartParams: {}, template: {metadata: {annotations: {$3}}, spec: {containers: [{name: ray-worker, image: 'rayproject/ray:2.46.0'}]}}}
---
Y
}
rj() { # name mode entrypoint extra
cat <<Y
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: $1}
spec:
  submissionMode: $2
  entrypoint: "$3"
  $4
  rayClusterSpec:
    rayVersion: '2.46.0'
    headGroupSpec:
      rayStartParams: {}
      template: {spec: {containers: [{name: ray-head, image: 'rayproject/ray:2.46.0'}]}}
    workerGroupSpecs: []
---
Y
}
{ rc good '' '' 2
  rc pending '' 'fake-kubelet/phase: Pending, fake-kubelet/reason: ImagePullBackOff' 1
  rc failed '' 'fake-kubelet/phase: Failed, fake-kubelet/reason: OOMKilled, fake-kubelet/exit-code: "137"' 1
  rc crash 'fake-kubelet/phase: CrashLoop' '' 0
  rc unready 'fake-kubelet/phase: Unready' '' 0
} | k create -f - >/dev/null
rj http HTTPMode 'python a.py' '' | k create -f - >/dev/null
rj sidecar SidecarMode 'sleep 2' '' | k create -f - >/dev/null
rj k8sfail K8sJobMode 'sleep 1 && exit 3' 'backoffLimit: 0' | k create -f - >/dev/null
rj shutdown K8sJobMode 'sleep 1' 'shutdownAfterJobFinishes: true' | k create -f - >/dev/null
wait_for raycluster/good '{.status.state}' ready 20
wait_for "pod -l ray.io/cluster=pending,ray.io/node-type=worker" '{.items[0].status.containerStatuses[0].state.waiting.reason}' ImagePullBackOff 10
echo "     pending state: '$(k get raycluster pending -o jsonpath='{.status.state}/{.status.conditions[*].type}')'"
echo "     failed cluster: pods $(k get pods -l ray.io/cluster=failed --no-headers | awk '{print $3}' | paste -sd,) state '$(k get raycluster failed -o jsonpath='{.status.state}')'"
wait_for "pod -l ray.io/cluster=crash" '{.items[0].status.containerStatuses[0].state.waiting.reason}' CrashLoopBackOff 10
wait_for "pod -l ray.io/cluster=unready" '{.items[0].status.phase}/{.items[0].status.containerStatuses[0].ready}' Running/false 10
k patch raycluster good --type=json -p '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":5}]' >/dev/null
wait_for raycluster/good '{.status.readyWorkerReplicas}' '^5$' 20
k patch raycluster good --type=json -p '[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":1}]' >/dev/null
wait_for raycluster/good '{.status.readyWorkerReplicas}' '^1$' 20
k patch raycluster good --type=merge -p '{"spec":{"suspend":true}}' >/dev/null
wait_for raycluster/good '{.status.state}' suspended 20
k patch raycluster good --type=merge -p '{"spec":{"suspend":false}}' >/dev/null
wait_for raycluster/good '{.status.state}' ready 20
H=$(k get pods -l ray.io/cluster=good,ray.io/node-type=head -o name)
k annotate $H fake-kubelet/phase=Failed >/dev/null   # a crash at run time: the operator must replace the head
for i in $(seq 1 60); do [ "$(k get pods -l ray.io/cluster=good,ray.io/node-type=head -o name)" != "$H" ] && break; sleep 0.5; done
wait_for raycluster/good '{.status.state}' ready 30; echo "     head replaced: $H -> $(k get pods -l ray.io/cluster=good,ray.io/node-type=head -o name)"
wait_for rayjob/http '{.status.jobDeploymentStatus}/{.status.jobStatus}' Complete/SUCCEEDED 40
wait_for rayjob/sidecar '{.status.jobDeploymentStatus}/{.status.jobStatus}' Complete/SUCCEEDED 40
wait_for rayjob/k8sfail '{.status.jobDeploymentStatus}/{.status.jobStatus}/{.status.reason}' Failed/FAILED 40
wait_for rayjob/shutdown '{.status.jobDeploymentStatus}/{.status.jobStatus}' Complete/SUCCEEDED 40
for i in $(seq 1 50); do n=$(k get rayclusters --no-headers | grep -c '^shutdown'); [ "$n" = 0 ] && break; sleep 0.2; done; echo "     shutdown's raycluster left: $n"
# unschedulable by the real scheduler
rc huge '' '' 0 | sed "s|image: 'rayproject/ray:2.46.0'|&, resources: {requests: {cpu: '9999'}}|" | k create -f - >/dev/null
wait_for "pod -l ray.io/cluster=huge" '{.items[0].status.conditions[0].reason}' Unschedulable 10
# quota
k create quota q --hard=pods=1 >/dev/null; sleep 1; rc quota '' '' 1 | k create -f - >/dev/null; sleep 3
echo "     quota: $(k get events --field-selector involvedObject.name=quota -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}' | grep -m1 -o 'exceeded quota.*')"
t0=$(date +%s.%N); kubectl delete ns $NS >/dev/null; echo "     namespace deleted in $(echo "$(date +%s.%N)-$t0"|bc)s"
