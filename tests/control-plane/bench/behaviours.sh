#!/usr/bin/env bash
# What the fake kubelet finds out by itself: creates RayClusters and pods that go wrong in the ways real ones
# do, and checks statuses and events word by word. Prints ok or FAIL per case, and a summary.
# Usage: bench/behaviours.sh [-v]   (-v: print every status and event that matched)
set -uo pipefail
cd "$(dirname "$0")/.."; RUN=${RUN:-$PWD/run}; export PATH="$PWD/bin:$PATH" KUBECONFIG=$RUN/kubeconfig
CONTROL=$(grep -o 'control=[^ ]*' "$RUN/out.log" | head -1 | cut -d= -f2-)
VERBOSE=${1:-}; NS=beh-$$; PASS=0; FAIL=0; CHECKS=0; CASE=''; BAD=0
k() { kubectl -n "$NS" "$@"; }
say() { [ -n "$VERBOSE" ] && echo "       $*"; return 0; }
finish() { [ -z "$CASE" ] && return 0; if [ "$BAD" = 0 ]; then echo "ok    $CASE"; PASS=$((PASS+1)); else echo "FAIL  $CASE"; FAIL=$((FAIL+1)); fi; }
case_() { finish; CASE=$1; BAD=0; }
wrong() { BAD=1; echo "       - $*"; }
# is OBJECT JSONPATH REGEX [SECONDS]
is() { local v='' i; CHECKS=$((CHECKS+1))
  for i in $(seq 1 $(( ${4:-15} * 5 ))); do v=$(k get $1 -o jsonpath="$2" 2>/dev/null); [[ $v =~ $3 ]] && { say "$1: $v"; return 0; }; sleep 0.2; done
  wrong "$1 $2 = '$v', wanted $3"; }
# ev POD TYPE REASON REGEX [SECONDS]  -- over all events about the pod: type|reason|component|host|field path|xCOUNT|message
events() { k get events --field-selector "involvedObject.name=$1" -o jsonpath='{range .items[*]}{.type}|{.reason}|{.reportingComponent}|{.source.host}|{.involvedObject.fieldPath}|x{.count}|{.message}{"\n"}{end}' 2>/dev/null; }
ev() { local i all line; CHECKS=$((CHECKS+1))
  for i in $(seq 1 $(( ${5:-15} * 4 ))); do all=$(events "$1"); line=$(grep -E "^$2\|$3\|" <<<"$all" | grep -E -m1 -- "$4") && { say "event $line"; return 0; }; sleep 0.25; done
  wrong "no event $2 $3 '$4' about $1; there are:"; sed 's/^/           /' <<<"$all"; }
# was POD REGEX  -- some status since the start: pod, init waiting reason and message, waiting reason and message, phase, reason
was() { local line; CHECKS=$((CHECKS+1)); line=$(grep -- "^$1 .*" "$HIST" | grep -E -- "$2" | head -n 1); [ -n "$line" ] && { say "was   $line"; return 0; }; wrong "$1 was never '$2'"; }
head_of() { k get pods -l "ray.io/cluster=$1,ray.io/node-type=head" -o jsonpath='{.items[0].metadata.name}' 2>/dev/null; }
worker_of() { k get pods -l "ray.io/cluster=$1,ray.io/node-type=worker" -o jsonpath='{.items[0].metadata.name}' 2>/dev/null; }
pods_of() { local i; for i in $(seq 1 50); do [ -n "$(head_of "$1")" ] && return 0; sleep 0.2; done; }
control() { curl -fsS -X POST "$CONTROL/$1" >/dev/null || wrong "control $1"; }
# pod NAME CONTAINER-FIELDS [SPEC-FIELDS] [IMAGE]
pod() { echo '# yaml'; echo "{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {terminationGracePeriodSeconds: 1, ${3:+$3, }containers: [{name: main, image: '${4:-busybox:1.36}'${2:+, $2}}]}}"; echo ---; }
# rc NAME HEAD-CONTAINER HEAD-SPEC HEAD-META WORKER-CONTAINER [HEAD-IMAGE] [WORKER-IMAGE] [HEAD-PARAMS] [REPLICAS]
rc() { cat <<Y
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: $1}
spec:
  rayVersion: '2.46.0'
  headGroupSpec:
    rayStartParams: {${8:-}}
    template: {metadata: {annotations: {${4:-}}}, spec: {${3:+$3, }containers: [{name: ray-head, image: '${6:-rayproject/ray:2.46.0}'${2:+, $2}}]}}
  workerGroupSpecs:
  - {groupName: w, replicas: ${9:-0}, minReplicas: 0, maxReplicas: 5, rayStartParams: {}, template: {spec: {containers: [{name: ray-worker, image: '${7:-rayproject/ray:2.46.0}'${5:+, $5}}]}}}
---
Y
}
OVER='ray.io/overwrite-container-cmd: "true"'
W='{.status.containerStatuses[0].state.waiting.reason}'; WM='{.status.containerStatuses[0].state.waiting.message}'
IW='{.status.initContainerStatuses[0].state.waiting.reason}'; IWM='{.status.initContainerStatuses[0].state.waiting.message}'
L='{.status.containerStatuses[0].lastState.terminated.reason}/{.status.containerStatuses[0].lastState.terminated.exitCode}'
N='fake-node-[0-9]'; MAIN='spec.containers\{main\}'; HEAD='spec.containers\{ray-head\}'
kubectl create ns "$NS" >/dev/null; t0=$(date +%s); sleep 1; TMP=$(mktemp -d); HIST=$TMP/hist
kubectl -n "$NS" get pods -w --no-headers -o 'custom-columns=N:.metadata.name,IR:.status.initContainerStatuses[*].state.waiting.reason,IM:.status.initContainerStatuses[*].state.waiting.message,R:.status.containerStatuses[*].state.waiting.reason,M:.status.containerStatuses[*].state.waiting.message,P:.status.phase,W:.status.reason' >"$HIST" 2>/dev/null & WATCHER=$!
trap 'kill $WATCHER 2>/dev/null; rm -rf "$TMP"' EXIT

curl -fsS -X POST "$CONTROL/forget-images" >/dev/null || { echo "no control interface"; exit 1; }
{ # ---- everything at once; most cases are independent
pod img-tag '' '' nginx:doesnotexist; pod img-repo '' '' acme/no-such-thing:1.0; pod img-401 '' 'imagePullSecrets: [{name: regcred}]' private.example.com/team/ray:1.2
pod img-dns '' '' registry.invalid/ray:1; pod img-never 'imagePullPolicy: Never' '' acme/never:1; pod img-name '' '' 'rayproject/ray:2.46.0:oops'
pod img-quay '' '' quay.io/acme/tool:7
pod cm-key 'env: [{name: A, valueFrom: {configMapKeyRef: {name: have, key: nokey}}}], command: [sleep, infinity]'
pod sec-key 'env: [{name: A, valueFrom: {secretKeyRef: {name: have, key: nokey}}}], command: [sleep, infinity]'
pod sec-from 'envFrom: [{secretRef: {name: nosecret}}], command: [sleep, infinity]'
pod optional 'env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: k, optional: true}}}, {name: B, valueFrom: {secretKeyRef: {name: have, key: k}}}], envFrom: [{secretRef: {name: none, optional: true}}], command: [sleep, infinity]'
pod vol-cm 'volumeMounts: [{name: cfg, mountPath: /cfg}], command: [sleep, infinity]' 'volumes: [{name: cfg, configMap: {name: nocm}}]'
pod vol-item 'volumeMounts: [{name: cfg, mountPath: /cfg}], command: [sleep, infinity]' 'volumes: [{name: cfg, secret: {secretName: have, items: [{key: nokey, path: x}]}}]'
pod nonroot 'securityContext: {runAsNonRoot: true}, command: [sleep, infinity]'
pod exit3 'command: [sh, -c, "echo loading; echo disk is full; exit 3"], terminationMessagePolicy: FallbackToLogsOnError'
pod raise "command: [python, -c, \"import os; raise RuntimeError('no GPU found')\"], terminationMessagePolicy: FallbackToLogsOnError" 'restartPolicy: Never' python:3.11
pod quiet 'command: [sh, -c, "exit 3"]' 'restartPolicy: Never'
pod done 'command: [echo, hi]' 'restartPolicy: Never'
pod nobin 'command: [no-such-binary, --x]'; pod nopath 'command: [/opt/nosuch/run]'
pod nested 'command: [sh, -c, "true && sh -c \"sleep 1; exit 42\""]' 'restartPolicy: OnFailure'
pod stress 'command: [stress, --vm, "1", --vm-bytes, 4G], resources: {limits: {memory: 1Gi}}' '' polinux/stress
pod liveness 'command: [sleep, infinity], livenessProbe: {httpGet: {path: /h, port: 80}, periodSeconds: 1, failureThreshold: 3}'
pod two 'command: [sleep, infinity]' 'initContainers: [{name: one, image: "busybox:1.36", command: [sh, -c, "echo first"]}, {name: second, image: "busybox:1.36", command: [sh, -c, "echo license expired; exit 1"]}]'
rc w-image '' '' '' '' '' rayproject/ray:9.9.9 '' 1
rc h-image '' '' '' '' rayproject/rya:2.46.0 '' '' 1
rc h-cm 'envFrom: [{configMapRef: {name: ray-settings}}]'
rc h-vol 'volumeMounts: [{name: creds, mountPath: /creds}]' 'volumes: [{name: creds, secret: {secretName: ray-creds}}]'
rc h-pvc 'volumeMounts: [{name: data, mountPath: /data}]' 'volumes: [{name: data, persistentVolumeClaim: {claimName: ray-data}}]'
rc h-over 'command: [/bin/bash, -c], args: ["echo starting; exit 3"], terminationMessagePolicy: FallbackToLogsOnError' '' "$OVER"
rc h-user 'command: ["echo preparing; exit 4"]'
rc h-param '' '' '' '' '' '' 'foo: bar'
rc h-int 'terminationMessagePolicy: FallbackToLogsOnError' '' '' '' '' '' 'num-cpus: many'
rc h-python 'terminationMessagePolicy: FallbackToLogsOnError' '' '' '' python:3.11
rc h-busybox '' '' '' '' busybox:1.36
rc h-hook 'lifecycle: {postStart: {exec: {command: [/bin/sh, -c, "echo no bucket; exit 5"]}}}'
rc h-init '' 'initContainers: [{name: fetch, image: "busybox:1.36", command: [sh, -c, "echo no license; exit 1"]}]'
rc h-wait '' 'initContainers: [{name: wait-redis, image: "busybox:1.36", command: [sh, -c, "until nslookup redis; do sleep 2; done; echo found"]}]'
rc h-oom 'env: [{name: RAY_FAKE_ALLOC, value: 8Gi}], resources: {limits: {memory: 4Gi, cpu: 1}}'
rc h-small 'resources: {limits: {memory: 32Mi, cpu: 1}}'
rc live 'terminationMessagePolicy: FallbackToLogsOnError, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 2Gi}}' '' '' '' '' '' '' 1
rc evict 'resources: {requests: {cpu: 1, memory: 1Gi}}'
} > "$TMP/yaml"
k create cm have --from-literal=k=v >/dev/null; k create secret generic have --from-literal=k=v >/dev/null
sed -i 's/polinux\/stress/quay.io\/known\/stress:1.0/' "$TMP/yaml"
k create -f "$TMP/yaml" >"$TMP/out" 2>&1 || { echo "creating failed:"; grep -v created "$TMP/out"; kubectl delete ns "$NS" --wait=false >/dev/null; exit 1; }

# ---- 1 images
case_ 'image: tag not found (ErrImagePull, ImagePullBackOff)'
is pod/img-tag "$W" 'ErrImagePull|ImagePullBackOff'
is pod/img-tag "$WM" '^Back-off pulling image "nginx:doesnotexist": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:doesnotexist": failed to resolve reference "docker.io/library/nginx:doesnotexist": docker.io/library/nginx:doesnotexist: not found$'
is pod/img-tag "$W" '^ImagePullBackOff$'
was img-tag ' ContainerCreating +<none> +Pending'; was img-tag ' ErrImagePull +rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:doesnotexist"'
is pod/img-tag '{.status.phase}/{.status.conditions[?(@.type=="Ready")].reason}/{.status.conditions[?(@.type=="Ready")].message}' '^Pending/ContainersNotReady/containers with unready status: \[main\]$'
ev img-tag Normal Scheduled 'default-scheduler.*Successfully assigned'
ev img-tag Normal Pulling "kubelet\|$N\|$MAIN\|x[0-9]+\|Pulling image \"nginx:doesnotexist\"$"
ev img-tag Warning Failed "kubelet\|$N\|$MAIN\|x[0-9]+\|Failed to pull image \"nginx:doesnotexist\": rpc error: code = NotFound"
ev img-tag Warning Failed "$MAIN\|x[0-9]+\|Error: ErrImagePull$"
ev img-tag Normal BackOff "$MAIN\|x[0-9]+\|Back-off pulling image \"nginx:doesnotexist\"$"
ev img-tag Warning Failed "$MAIN\|x[0-9]+\|Error: ImagePullBackOff$"
ev img-tag Warning Failed "$MAIN\|x([2-9]|[1-9][0-9]+)\|Error: ErrImagePull$" 20
case_ 'image: repository unknown to Docker Hub (pull access denied)'
is pod/img-repo "$WM" 'pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed$'
ev img-repo Warning Failed 'Failed to pull image "acme/no-such-thing:1.0": failed to pull and unpack image "docker.io/acme/no-such-thing:1.0"'
case_ 'image: not found elsewhere; host without DNS'
is pod/img-quay "$WM" 'code = NotFound.*quay.io/acme/tool:7: not found$'
is pod/img-dns "$WM" 'failed to do request: Head "https://registry.invalid/v2/ray/manifests/1": dial tcp: lookup registry.invalid on 10.96.0.10:53: no such host$'
case_ 'image: private registry, 401, then a pull secret'
is pod/img-401 "$WM" 'failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://private.example.com/oauth2/token\?scope=repository%3Ateam%2Fray%3Apull&service=private.example.com: 401 Unauthorized$'
ev img-401 Warning FailedToRetrieveImagePullSecret "kubelet\|$N\|\|x[0-9]+\|Unable to retrieve some image pull secrets \(regcred\); attempting to pull the image may not succeed.$"
k create secret docker-registry regcred --docker-server=private.example.com --docker-username=u --docker-password=p >/dev/null
is pod/img-401 '{.status.phase}/{.status.containerStatuses[0].ready}' '^Running/true$' 40
ev raise Normal Pulled 'Successfully pulled image "python:3.11" in [0-9.]+m?s \([0-9.]+m?s including waiting\). Image size: [0-9]+ bytes.$'
case_ 'image: recovers when the image of the live pod is set right'
k set image pod/img-tag main=nginx:1.27 >/dev/null
is pod/img-tag '{.status.phase}/{.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].image}' '^Running/0/nginx:1.27$'
case_ 'image: pull policy Never'
is pod/img-never "$W/$WM" '^ErrImageNeverPull/Container image "acme/never:1" is not present with pull policy of Never$'
ev img-never Warning ErrImageNeverPull 'Container image "acme/never:1" is not present with pull policy of Never$'
ev img-never Warning Failed 'Error: ErrImageNeverPull$'
case_ 'image: invalid name'
is pod/img-name "$W/$WM" '^InvalidImageName/Failed to apply default image tag "rayproject/ray:2.46.0:oops": couldn.t parse image name "rayproject/ray:2.46.0:oops": invalid reference format$'
ev img-name Warning InspectFailed 'Failed to apply default image tag'
ev img-name Warning Failed 'Error: InvalidImageName$'
case_ 'image: cached on the node after the first pull'
ev optional Normal Pulled '(Container image "busybox:1.36" already present on machine and can be accessed by the pod|Successfully pulled image "busybox:1.36")'
case_ 'RayCluster: worker image missing (Init:ImagePullBackOff), head fine'
pods_of w-image; is pod/"$(worker_of w-image)" "$IW" 'ImagePullBackOff'
is pod/"$(worker_of w-image)" "$IWM" 'docker.io/rayproject/ray:9.9.9: not found$'
is pod/"$(worker_of w-image)" "$W" '^PodInitializing$'
is pod/"$(head_of w-image)" '{.status.containerStatuses[0].ready}' true
is raycluster/w-image '{.status.state}/{.status.conditions[?(@.type=="RayClusterProvisioned")].reason}' '^/RayClusterPodsProvisioning$'
case_ 'RayCluster: head image typo, worker waits for GCS'
is pod/"$(head_of h-image)" "$W" '^ImagePullBackOff$'
is pod/"$(worker_of h-image)" '{.status.initContainerStatuses[0].state.running.startedAt}' '^20'
is pod/"$(worker_of h-image)" '{.status.conditions[?(@.type=="Initialized")].message}' '^containers with incomplete status: \[wait-gcs-ready\]$'
is raycluster/h-image '{.status.conditions[?(@.type=="HeadPodReady")].reason}/{.status.conditions[?(@.type=="HeadPodReady")].message}' 'ImagePullBackOff|ErrImagePull|ContainersNotReady'

# ---- 2 references
case_ 'reference: key missing in ConfigMap and Secret'
is pod/cm-key "$W/$WM" "^CreateContainerConfigError/couldn't find key nokey in ConfigMap $NS/have$"
is pod/sec-key "$W/$WM" "^CreateContainerConfigError/couldn't find key nokey in Secret $NS/have$"
ev sec-key Warning Failed "$MAIN\|x[0-9]+\|Error: couldn't find key nokey in Secret $NS/have$"
case_ 'reference: envFrom a missing Secret, recovers'
is pod/sec-from "$W/$WM" '^CreateContainerConfigError/secret "nosecret" not found$'
ev sec-from Warning Failed "$MAIN\|x([2-9]|[1-9][0-9]+)\|Error: secret \"nosecret\" not found$" 20
k create secret generic nosecret --from-literal=a=b >/dev/null; is pod/sec-from '{.status.phase}/{.status.containerStatuses[0].restartCount}' '^Running/0$'
case_ 'reference: optional ones do no harm'
is pod/optional '{.status.phase}' Running
case_ 'reference: volume of a missing ConfigMap; Secret without the item'
is pod/vol-cm "{.status.phase}/$W/$WM/{.status.conditions[?(@.type==\"PodReadyToStartContainers\")].status}" '^Pending/ContainerCreating//False$'
ev vol-cm Warning FailedMount "kubelet\|$N\|\|x([2-9]|[1-9][0-9]+)\|MountVolume.SetUp failed for volume \"cfg\" : configmap \"nocm\" not found$"
ev vol-item Warning FailedMount 'MountVolume.SetUp failed for volume "cfg" : references non-existent secret key: nokey$'
ev vol-cm Warning FailedMount 'Unable to attach or mount volumes: unmounted volumes=\[cfg\], unattached volumes=\[\], failed to process volumes=\[\]: context deadline exceeded$' 25
k create cm nocm >/dev/null; is pod/vol-cm '{.status.phase}' Running 20
case_ 'reference: runAsNonRoot with an image of root'
is pod/nonroot "$W/$WM" '^CreateContainerConfigError/container has runAsNonRoot and image will run as root \(pod: "nonroot_.*\(.*\)", container: main\)$'
case_ 'RayCluster: head envFrom a missing ConfigMap, ready when it appears'
is pod/"$(head_of h-cm)" "$W/$WM" '^CreateContainerConfigError/configmap "ray-settings" not found$'
ev "$(head_of h-cm)" Warning Failed "$HEAD\|x[0-9]+\|Error: configmap \"ray-settings\" not found$"
k create cm ray-settings >/dev/null; is raycluster/h-cm '{.status.state}' ready
case_ 'RayCluster: head volume from a missing Secret, ready when it appears'
is pod/"$(head_of h-vol)" "$W" '^ContainerCreating$'
ev "$(head_of h-vol)" Warning FailedMount 'MountVolume.SetUp failed for volume "creds" : secret "ray-creds" not found$'
k create secret generic ray-creds --from-literal=a=b >/dev/null; is raycluster/h-vol '{.status.state}' ready 20
case_ 'RayCluster: missing PVC (real scheduler), then unbound, then bound (real binder)'
is pod/"$(head_of h-pvc)" '{.status.phase}/{.status.conditions[?(@.type=="PodScheduled")].reason}/{.status.conditions[?(@.type=="PodScheduled")].message}' '^Pending/Unschedulable/.*persistentvolumeclaim "ray-data" not found'
ev "$(head_of h-pvc)" Warning FailedScheduling 'persistentvolumeclaim "ray-data" not found'
k create -f - >/dev/null <<Y
# yaml
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: ray-data}, spec: {storageClassName: '', accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
Y
is pod/"$(head_of h-pvc)" '{.status.conditions[?(@.type=="PodScheduled")].message}' 'pod has unbound immediate PersistentVolumeClaims' 20
ev ray-data Normal FailedBinding 'no persistent volumes available for this claim and no storage class is set' 20
kubectl create -f - >/dev/null <<Y
# yaml
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-$NS}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: /tmp}, claimRef: {namespace: $NS, name: ray-data}}}
Y
is raycluster/h-pvc '{.status.state}' ready 40

# ---- 3, 4 commands and messages
case_ 'command: exit 3 with echo (CrashLoopBackOff, FallbackToLogsOnError)'
is pod/exit3 "$W/$L" '^CrashLoopBackOff/Error/3$'
is pod/exit3 '{.status.containerStatuses[0].lastState.terminated.message}' '^loading
disk is full'
was exit3 'CrashLoopBackOff +back-off 10s restarting failed container=main pod=exit3_'; was exit3 ' back-off 20s restarting'; was exit3 ' back-off 40s restarting'
is pod/exit3 "$WM" "^back-off (10s|20s|40s|1m20s|2m40s|5m0s) restarting failed container=main pod=exit3_$NS\(.*\)$"
ev exit3 Normal Created "$MAIN\|x[0-9]+\|Container created$"; ev exit3 Normal Started "$MAIN\|x[0-9]+\|Container started$"
ev exit3 Warning BackOff "kubelet\|$N\|$MAIN\|x[0-9]+\|Back-off restarting failed container main in pod exit3_$NS\(.*\)$"
is pod/exit3 '{.status.containerStatuses[0].restartCount}' '^([3-9]|[1-9][0-9])$' 20
is pod/exit3 "{.status.phase}/$WM" '^Running/back-off (40s|1m20s|2m40s|5m0s)' 20
CHECKS=$((CHECKS+1)); [[ $(k logs exit3 --previous) == *'disk is full'* ]] || wrong "logs --previous: $(k logs exit3 --previous 2>&1)"
case_ 'command: restartPolicy Never (Failed, Succeeded); message empty without the policy'
is pod/quiet '{.status.phase}/{.status.containerStatuses[0].state.terminated.reason}/{.status.containerStatuses[0].state.terminated.exitCode}/{.status.containerStatuses[0].state.terminated.message}/{.status.conditions[?(@.type=="Ready")].reason}' '^Failed/Error/3//PodFailed$'
is pod/done '{.status.phase}/{.status.containerStatuses[0].state.terminated.reason}/{.status.conditions[?(@.type=="Ready")].reason}' '^Succeeded/Completed/PodCompleted$'
case_ 'command: python traceback in the termination message'
is pod/raise '{.status.containerStatuses[0].state.terminated.exitCode}/{.status.containerStatuses[0].state.terminated.message}' '^1/Traceback \(most recent call last\):
  File "<string>", line 1, in <module>
RuntimeError: no GPU found'
case_ 'command: nested shell, restartPolicy OnFailure'
is pod/nested "$L" '^Error/42$'
case_ 'command: binary not found (RunContainerError, StartError 128)'
was nobin 'RunContainerError +failed to create containerd task: .*executable file not found in .PATH'; is pod/nobin "$L/{.status.containerStatuses[0].lastState.terminated.startedAt}" '^StartError/128/1970-01-01T00:00:00Z$'
is pod/nobin '{.status.containerStatuses[0].lastState.terminated.message}' '^failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "no-such-binary": executable file not found in \$PATH$'
is pod/nopath '{.status.containerStatuses[0].lastState.terminated.message}' 'exec: "/opt/nosuch/run": stat /opt/nosuch/run: no such file or directory$'
ev nobin Warning Failed "$MAIN\|x[0-9]+\|Error: failed to create containerd task: .*executable file not found in .PATH$"
is pod/nobin "$W" '^CrashLoopBackOff$' 10
case_ 'command: second init container fails (Init:CrashLoopBackOff)'
is pod/two '{.status.initContainerStatuses[0].state.terminated.reason}/{.status.initContainerStatuses[1].state.waiting.reason}/{.status.initContainerStatuses[1].lastState.terminated.exitCode}' '^Completed/CrashLoopBackOff/1$'
is pod/two "{.status.phase}/$W/{.status.conditions[?(@.type==\"Initialized\")].message}" '^Pending/PodInitializing/containers with incomplete status: \[second\]$'
ev two Warning BackOff "spec.initContainers\{second\}\|x[0-9]+\|Back-off restarting failed container second in pod two_"
case_ 'RayCluster: overwritten command that fails'
is pod/"$(head_of h-over)" "$W/$L/{.status.containerStatuses[0].lastState.terminated.message}" '^CrashLoopBackOff/Error/3/starting'
case_ "RayCluster: user's command before ray start fails"
is pod/"$(head_of h-user)" "$W/$L" '^CrashLoopBackOff/Error/4$'
case_ 'RayCluster: rayStartParams that Ray rejects'
is pod/"$(head_of h-param)" "$W/$L" '^CrashLoopBackOff/Error/2$'
CHECKS=$((CHECKS+1)); [[ $(k logs "$(head_of h-param)" --previous) == *'Error: No such option: --foo'* ]] || wrong "logs: $(k logs "$(head_of h-param)" --previous 2>&1)"
if [ -n "$(head_of h-int)" ]; then is pod/"$(head_of h-int)" '{.status.containerStatuses[0].lastState.terminated.message}' "Error: Invalid value for '--num-cpus': 'many' is not a valid integer."; fi
case_ 'RayCluster: image without Ray (127), image without bash (StartError)'
is pod/"$(head_of h-python)" "$L/{.status.containerStatuses[0].lastState.terminated.message}" '^Error/127//bin/bash: line 1: ray: command not found'
is pod/"$(head_of h-busybox)" "$L/{.status.containerStatuses[0].lastState.terminated.message}" '^StartError/128/.*exec: "/bin/bash": stat /bin/bash: no such file or directory$'
case_ 'RayCluster: failing postStart hook'
is pod/"$(head_of h-hook)" "$W" '^(PostStartHookError|CrashLoopBackOff)$'; is pod/"$(head_of h-hook)" "$L" '^Error/137$'
ev "$(head_of h-hook)" Warning FailedPostStartHook "kubelet\|$N\|$HEAD\|x[0-9]+\|PostStartHook failed$"
ev "$(head_of h-hook)" Normal Killing 'FailedPostStartHook$'
was "$(head_of h-hook)" 'PostStartHookError +Exec lifecycle hook \(\[/bin/sh -c echo no bucket; exit 5\]\) for Container "ray-head" in Pod "h-hook-head-.*" failed - error: command ./bin/sh -c echo no bucket; exit 5. exited with 5: , message: "no bucket'
case_ 'RayCluster: failing init container'
is pod/"$(head_of h-init)" "$IW/{.status.initContainerStatuses[0].lastState.terminated.exitCode}" '^CrashLoopBackOff/1$'
CHECKS=$((CHECKS+1)); [[ $(k logs "$(head_of h-init)" -c fetch) == 'no license' ]] || wrong "init logs: $(k logs "$(head_of h-init)" -c fetch 2>&1)"
case_ 'RayCluster: init container waits for a service, goes on when it exists'
is pod/"$(head_of h-wait)" '{.status.initContainerStatuses[0].state.running.startedAt}' '^20'; is raycluster/h-wait '{.status.state}' '^$'
k create service clusterip redis --tcp=6379 >/dev/null; is raycluster/h-wait '{.status.state}' ready

# ---- 5 resources
case_ 'resources: OOMKilled by RAY_FAKE_ALLOC, stress, a limit too small for Ray'
is pod/"$(head_of h-oom)" "$W/$L" '^CrashLoopBackOff/OOMKilled/137$'; is pod/stress "$L" '^OOMKilled/137$'; is pod/"$(head_of h-small)" "$L" '^OOMKilled/137$'
case_ 'control: worker OOMKilled at run time, restarts and is ready again'
is raycluster/live '{.status.state}' ready; P=$(worker_of live); control "kill?pod=$NS/$P&oom=true"
is pod/$P "{.status.containerStatuses[0].restartCount}/$L/{.status.containerStatuses[0].ready}" '^1/OOMKilled/137/true$'; is raycluster/live '{.status.state}' ready
case_ "control: head killed with exit 1 (Ray's last words), log line"
P=$(head_of live); control "logs?pod=$NS/$P&line=custom%20line"; sleep 0.3; control "kill?pod=$NS/$P&exit=1"
is pod/$P '{.status.containerStatuses[0].lastState.terminated.exitCode}/{.status.containerStatuses[0].lastState.terminated.message}' '^1/.*custom line.*Some Ray subprocesses exited unexpectedly.*gcs_server \[exit code=1\].*Remaining processes will be killed'
is pod/$P '{.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].ready}' '^1/true$'
case_ 'control: eviction for memory; the operator replaces the head'
is raycluster/evict '{.status.state}' ready; P=$(head_of evict)
kubectl -n "$NS" get pod $P -w -o jsonpath='{.status.phase}|{.status.reason}|{.status.message}|{.status.conditions[?(@.type=="DisruptionTarget")].reason}{"\n"}' >"$TMP/w" 2>/dev/null & WATCH=$!
sleep 0.5; control "evict?pod=$NS/$P&resource=memory&usage=3Gi"
ev $P Warning Evicted "kubelet\|$N\|\|x1\|The node was low on resource: memory. Threshold quantity: 100Mi, available: 87364Ki. Container ray-head was using 3Gi, request is 1Gi, has larger consumption of memory. $"
ev $P Normal Killing 'Stopping container ray-head$'
sleep 1; kill $WATCH 2>/dev/null; CHECKS=$((CHECKS+1)); grep -qE '^Failed\|Evicted\|The node was low on resource: memory.*\|TerminationByKubelet$' "$TMP/w" || wrong "evicted status: $(cat "$TMP/w")"
say "status $(grep -m1 Evicted "$TMP/w")"
is raycluster/evict '{.status.state}' ready; [ "$(head_of evict)" != "$P" ] || wrong 'head not replaced'
case_ 'control: over its own ephemeral-storage limit'
P=$(head_of live); control "evict?pod=$NS/$P&over=container"; ev $P Warning Evicted 'Container ray-head exceeded its local ephemeral storage limit "2Gi". $'
case_ 'preemption (real scheduler)'
kubectl create priorityclass beh-high --value=1000 >/dev/null 2>&1
for i in 0 1 2; do pod low-$i 'command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: 8}}'; done | k create -f - >/dev/null
for i in 0 1 2; do is pod/low-$i '{.status.phase}' Running; done
pod high 'command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: 4}}' 'priorityClassName: beh-high' | k create -f - >/dev/null
is pod/high '{.status.phase}' Running; CHECKS=$((CHECKS+1))
V=$(k get events --field-selector reason=Preempted -o jsonpath='{.items[0].type}|{.items[0].message}'); [[ $V =~ ^Normal\|Preempted\ by\ pod ]] && say "event $V" || wrong "Preempted event: $V"
kubectl delete priorityclass beh-high >/dev/null 2>&1; k delete pod high low-0 low-1 low-2 --ignore-not-found --wait=false >/dev/null

# ---- 6 probes
case_ 'probes: readiness fails (Unhealthy, Ready=False), then back'
is raycluster/h-cm '{.status.state}' ready; P=$(head_of h-cm); control "unready?pod=$NS/$P"
ev $P Warning Unhealthy "kubelet\|$N\|$HEAD\|x[0-9]+\|Readiness probe failed: $"
is pod/$P '{.status.phase}/{.status.containerStatuses[0].ready}/{.status.conditions[?(@.type=="Ready")].message}' '^Running/false/containers with unready status: \[ray-head\]$' 20
ev $P Warning Unhealthy 'x([2-9]|[1-9][0-9]+)\|Readiness probe failed: $'
is raycluster/h-cm '{.status.conditions[?(@.type=="HeadPodReady")].status}' False
control "ready?pod=$NS/$P"; is pod/$P '{.status.containerStatuses[0].ready}/{.status.containerStatuses[0].restartCount}' '^true/0$'
case_ 'probes: liveness fails, container restarts'
control "unready?pod=$NS/liveness&liveness=true"
ev liveness Warning Unhealthy 'Liveness probe failed: Get "http://10.244[0-9.]+:80/h": dial tcp 10.244[0-9.]+:80: connect: connection refused$'
ev liveness Normal Killing 'Container main failed liveness probe, will be restarted$'; is pod/liveness '{.status.containerStatuses[0].restartCount}' '^1$'

# ---- nodes (real node lifecycle and taint eviction controllers)
case_ 'node lost: Ready=Unknown, pod not ready, deleted after its toleration; back'
pod lost 'command: [sleep, infinity]' 'nodeName: fake-node-2, tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}]' | k create -f - >/dev/null
pod stays 'command: [sleep, infinity]' 'nodeName: fake-node-2' | k create -f - >/dev/null; is pod/stays '{.status.phase}' Running; is pod/lost '{.status.phase}' Running
control 'node-down?node=fake-node-2'
is node/fake-node-2 '{.status.conditions[?(@.type=="Ready")].status}/{.status.conditions[?(@.type=="Ready")].reason}/{.status.conditions[?(@.type=="Ready")].message}' '^Unknown/NodeStatusUnknown/Kubelet stopped posting node status.$' 30
is node/fake-node-2 '{.spec.taints[*].key}' 'node.kubernetes.io/unreachable'
is pod/stays '{.status.phase}/{.status.conditions[?(@.type=="Ready")].status}' '^Running/False$'
ev stays Warning NodeNotReady 'node-controller\|.*Node is not ready$'
ev lost Normal TaintManagerEviction "taint-eviction-controller\|.*Marking for deletion Pod $NS/lost$" 30
is pod/lost '{.metadata.deletionTimestamp}/{.status.conditions[?(@.type=="DisruptionTarget")].reason}/{.status.conditions[?(@.type=="DisruptionTarget")].message}' '^20.*/DeletionByTaintManager/Taint manager: deleting due to NoExecute taint$'
control 'node-up?node=fake-node-2'
is node/fake-node-2 '{.status.conditions[?(@.type=="Ready")].status}/{.spec.taints}' '^True/$' 20
is pod/stays '{.status.phase}/{.status.conditions[?(@.type=="Ready")].status}' '^Running/True$' 20
CHECKS=$((CHECKS+1)); for i in $(seq 1 50); do k get pod lost >/dev/null 2>&1 || break; sleep 0.2; done; k get pod lost >/dev/null 2>&1 && wrong 'pod lost is still there'
case_ 'node not ready by its own word'
control 'node-down?node=fake-node-1&ready=false'
is node/fake-node-1 '{.status.conditions[?(@.type=="Ready")].status}/{.status.conditions[?(@.type=="Ready")].reason}' '^False/KubeletNotReady$'
is node/fake-node-1 '{.spec.taints[*].key}' 'node.kubernetes.io/not-ready' 20
control 'node-up?node=fake-node-1'; is node/fake-node-1 '{.status.conditions[?(@.type=="Ready")].status}/{.spec.taints}' '^True/$' 20
finish
kubectl delete ns "$NS" --wait=false >/dev/null; kubectl delete pv "pv-$NS" --wait=false >/dev/null 2>&1
echo "$PASS cases ok, $FAIL FAIL ($CHECKS checks) in $(( $(date +%s) - t0 ))s"
[ "$FAIL" = 0 ]
