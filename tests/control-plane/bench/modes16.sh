#!/usr/bin/env bash
# What ray-operator 1.6 adds to 1.5: RayCronJob, token authentication, upgradeStrategy, deadlines, deletion rules, new validation.
set -uo pipefail
cd "$(dirname "$0")/.."; RUN=${RUN:-$PWD/run}; export PATH="$PWD/bin:$PATH" KUBECONFIG=$RUN/kubeconfig
NS=modes16; kubectl create ns $NS >/dev/null
k() { kubectl -n $NS "$@"; }
wait_for() { # what jsonpath regex seconds
  local v i; for i in $(seq 1 $(( $4 * 5 ))); do v=$(k get $1 -o jsonpath="$2" 2>/dev/null); [[ $v =~ $3 ]] && { echo "ok   $1 -> $v"; return 0; }; sleep 0.2; done
  echo "FAIL $1 = '$v', wanted $3"; return 1; }
event() { # object regex seconds
  local v i; for i in $(seq 1 $(( $3 * 5 ))); do v=$(k get events --field-selector involvedObject.name=$1 -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}' | grep -m1 -oE "$2.*"); [ -n "$v" ] && { echo "ok   event $1: $v"; return 0; }; sleep 0.2; done
  echo "FAIL no event $2 on $1"; return 1; }
spec() { # head-annotations min max extra   (a RayCluster spec as one line)
  echo "{rayVersion: '2.55.0', $4 headGroupSpec: {rayStartParams: {}, template: {metadata: {annotations: {$1}}, spec: {containers: [{name: ray-head, image: 'rayproject/ray:2.55.0'}]}}}, workerGroupSpecs: [{groupName: w, replicas: 1, minReplicas: $2, maxReplicas: $3, rayStartParams: {}, template: {spec: {containers: [{name: ray-worker, image: 'rayproject/ray:2.55.0'}]}}}]}"; }
obj() { printf 'apiVersion: ray.io/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n---\n' "$1" "$2" "$3"; }
{ obj RayCronJob cron "{schedule: '@every 2s', jobTemplate: {submissionMode: HTTPMode, entrypoint: 'sleep 1', shutdownAfterJobFinishes: true, rayClusterSpec: $(spec '' 0 1 '')}}"
  obj RayCronJob badcron "{schedule: 'nonsense', jobTemplate: {entrypoint: 'sleep 1', rayClusterSpec: $(spec '' 0 1 '')}}"
  obj RayCluster auth "$(spec '' 0 5 'authOptions: {mode: token},')"
  obj RayCluster k8sauth "$(spec '' 0 5 'authOptions: {mode: token, enableK8sTokenAuth: true},')"
  obj RayCluster recreate "$(spec '' 0 5 'upgradeStrategy: {type: Recreate},')"
  obj RayCluster minmax "$(spec '' 5 1 '')"
  obj RayJob authjob "{submissionMode: HTTPMode, entrypoint: 'sleep 1', rayClusterSpec: $(spec '' 0 5 'authOptions: {mode: token},')}"
  obj RayJob prerun "{preRunningDeadlineSeconds: 3, entrypoint: 'sleep 1', rayClusterSpec: $(spec 'fake-kubelet/phase: Pending' 0 5 '')}"
  obj RayJob delrule "{entrypoint: 'exit 1', backoffLimit: 0, deletionStrategy: {deletionRules: [{policy: DeleteCluster, condition: {jobDeploymentStatus: Failed, ttlSeconds: 1}}]}, rayClusterSpec: $(spec '' 0 5 '')}"
} | k create -f - >/dev/null
wait_for raycronjob/cron '{.status.lastScheduleTime}' 20 10
wait_for "rayjob -l ray.io/cronjob-name=cron" '{.items[0].status.jobDeploymentStatus}/{.items[0].status.jobStatus}' Complete/SUCCEEDED 30
echo "     $(k get rayjobs -l ray.io/cronjob-name=cron --no-headers | wc -l) RayJobs so far"
k patch raycronjob cron --type=merge -p '{"spec":{"suspend":true}}' >/dev/null; event cron SuspendedRayCronJob 10
event badcron InvalidRayCronJobSpec 10
event minmax 'InvalidRayClusterSpec' 10
wait_for raycluster/auth '{.status.state}' ready 20
for i in $(seq 1 25); do [ -n "$(k get endpoints auth-head-svc -o jsonpath='{.subsets[*].addresses[*].ip}' 2>/dev/null)" ] && break; sleep 0.2; done
T=$(k get secret auth -o jsonpath='{.data.auth_token}' | base64 -d)
S=$(kubectl config view --raw -o jsonpath='{.clusters[0].cluster.server}'); A=$(kubectl config view --raw -o jsonpath='{.users[0].user.token}')
kubectl config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d > "$RUN/ca-modes16.crt"
q() { curl -s -o /dev/null -w '%{http_code}' --noproxy '*' --cacert "$RUN/ca-modes16.crt" -H "Authorization: Bearer $A" ${2:+-H "x-ray-authorization: Bearer $2"} "$S/api/v1/namespaces/$NS/services/$1-head-svc:dashboard/proxy/api/jobs/"; }
r="$(q auth) $(q auth wrong) $(q auth "$T")"; [ "$r" = "401 403 200" ] && echo "ok   token auth: none, wrong, right -> $r" || echo "FAIL token auth: $r"
wait_for raycluster/k8sauth '{.status.state}' ready 20
for i in $(seq 1 25); do [ -n "$(k get endpoints k8sauth-head-svc -o jsonpath='{.subsets[*].addresses[*].ip}' 2>/dev/null)" ] && break; sleep 0.2; done
k create sa good >/dev/null; k create sa bad >/dev/null
k create -f - >/dev/null <<'Y'
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ray-writer}
rules: [{apiGroups: [ray.io], resources: [rayclusters], verbs: ['ray:write']}]
Y
k create rolebinding ray-writer --role=ray-writer --serviceaccount=$NS:good >/dev/null; sleep 0.5
r="$(q k8sauth) $(q k8sauth "$(k create token bad)") $(q k8sauth "$(k create token good)")"; [ "$r" = "401 403 200" ] && echo "ok   k8s token auth: none, without role, with role -> $r" || echo "FAIL k8s token auth: $r"
wait_for rayjob/authjob '{.status.jobDeploymentStatus}/{.status.jobStatus}' Complete/SUCCEEDED 40
wait_for rayjob/prerun '{.status.jobDeploymentStatus}/{.status.reason}' Failed/PreRunningDeadlineExceeded 20
wait_for rayjob/delrule '{.status.jobDeploymentStatus}/{.status.jobStatus}' Failed/FAILED 40
for i in $(seq 1 50); do n=$(k get rayclusters --no-headers | grep -c '^delrule'); [ "$n" = 0 ] && break; sleep 0.2; done; [ "$n" = 0 ] && echo "ok   deletion rule on jobDeploymentStatus: RayCluster gone" || echo "FAIL delrule RayCluster still there"
wait_for raycluster/recreate '{.status.state}' ready 20
U=$(k get pods -l ray.io/cluster=recreate -o jsonpath='{.items[*].metadata.uid}')
k patch raycluster recreate --type=json -p '[{"op":"replace","path":"/spec/headGroupSpec/template/spec/containers/0/image","value":"rayproject/ray:2.55.1"}]' >/dev/null
wait_for "pod -l ray.io/cluster=recreate,ray.io/node-type=head" '{.items[*].spec.containers[0].image}' '^rayproject/ray:2.55.1$' 20
wait_for raycluster/recreate '{.status.readyWorkerReplicas}' 1 20
sleep 1; for u in $U; do k get pods -l ray.io/cluster=recreate -o jsonpath='{.items[*].metadata.uid}' | grep -q "$u" && echo "FAIL an old pod of recreate is left"; done
t0=$(date +%s.%N); kubectl delete ns $NS >/dev/null; echo "     namespace deleted in $(echo "$(date +%s.%N)-$t0"|bc)s"
