//! Every known way to say each thing that a rule may close, as Kubernetes' and KubeRay's references have them.

use serde_json::{Value, json};

/// A value at a pointer that breaks one rule at one place.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) pointer: String,
    pub(super) value: Value,
    pub(super) rule: &'static str,
    pub(super) place: String,
}

/// What has a pod template.
pub(super) const NODES: [&str; 2] = ["/spec/headGroupSpec", "/spec/workerGroupSpecs/0"];
/// The lists of containers in a pod.
pub(super) const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// What becomes the autoscaler's container.
pub(super) const AUTOSCALER: &str = "/spec/autoscalerOptions";
/// What becomes the history server's collector.
pub(super) const COLLECTOR: &str = "/spec/historyServerOptions/collectorOptions";

/// Rows of a rule: a pointer, a value, and where below it the violation is.
fn rows(rule: &'static str, table: Vec<(&str, Value, &str)>) -> Vec<Row> {
    let row = |(pointer, value, below): (&str, Value, &str)| Row {
        pointer: pointer.to_owned(),
        value,
        rule,
        place: format!("{pointer}{below}"),
    };
    table.into_iter().map(row).collect()
}

/// Below a container.
pub(super) fn container_rows() -> Vec<Row> {
    let get = |host: &str| json!({"httpGet": {"host": host, "port": 80}});
    let socket = json!({"tcpSocket": {"host": "192.0.2.1", "port": 80}});
    [
        rows(
            "hostNamespaces",
            vec![
                ("/ports", json!([{"containerPort": 1}, {"containerPort": 2, "hostPort": 80}]), "/1/hostPort"),
                ("/ports", json!([{"hostPort": "80"}]), "/0/hostPort"),
                ("/ports", json!({"x": {"hostPort": 80}}), "/x/hostPort"),
                ("/livenessProbe", get("node"), "/httpGet/host"),
                ("/livenessProbe", socket.clone(), "/tcpSocket/host"),
                ("/readinessProbe", get("node"), "/httpGet/host"),
                ("/readinessProbe", socket.clone(), "/tcpSocket/host"),
                ("/startupProbe", get("node"), "/httpGet/host"),
                ("/startupProbe", socket.clone(), "/tcpSocket/host"),
                ("/lifecycle/postStart", get("node"), "/httpGet/host"),
                ("/lifecycle/postStart", socket.clone(), "/tcpSocket/host"),
                ("/lifecycle/preStop", get("node"), "/httpGet/host"),
                ("/lifecycle/preStop", socket, "/tcpSocket/host"),
                ("/securityContext", json!({"windowsOptions": {"hostProcess": true}}), "/windowsOptions/hostProcess"),
            ],
        ),
        rows(
            "privileged",
            vec![
                ("/securityContext", json!({"privileged": true}), "/privileged"),
                ("/securityContext", json!({"privileged": "true"}), "/privileged"),
                ("/securityContext", json!({"privileged": 1}), "/privileged"),
                ("/securityContext", json!({"procMount": "Unmasked"}), "/procMount"),
                ("/securityContext", json!({"procMount": "default"}), "/procMount"),
                ("/securityContext", json!({"seccompProfile": {"type": "Unconfined"}}), "/seccompProfile/type"),
                ("/securityContext", json!({"appArmorProfile": {"type": "Unconfined"}}), "/appArmorProfile/type"),
                ("/securityContext", json!({"seLinuxOptions": {"type": "spc_t"}}), "/seLinuxOptions/type"),
                ("/securityContext", json!({"seLinuxOptions": {"user": "system_u"}}), "/seLinuxOptions/user"),
                ("/securityContext", json!({"seLinuxOptions": {"role": "system_r"}}), "/seLinuxOptions/role"),
            ],
        ),
        rows(
            "capabilities",
            vec![
                ("/securityContext", json!({"capabilities": {"add": ["KILL", "SYS_ADMIN"]}}), "/capabilities/add/1"),
                ("/securityContext", json!({"capabilities": {"add": ["ALL"]}}), "/capabilities/add/0"),
                ("/securityContext", json!({"capabilities": {"add": ["NET_RAW"]}}), "/capabilities/add/0"),
                ("/securityContext", json!({"capabilities": {"add": {"x": "BPF"}}}), "/capabilities/add/x"),
            ],
        ),
        rows("images", vec![("/image", json!("rayproject/ray:2.52.0"), ""), ("/image", json!(["a"]), "")]),
        rows(
            "secrets",
            vec![
                (
                    "/env",
                    json!([{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "auth_token"}}}]),
                    "/1/valueFrom/secretKeyRef/name",
                ),
                ("/env/0/valueFrom", json!({"secretKeyRef": {"name": "mine", "key": "k"}}), "/secretKeyRef/name"),
                ("/env/0/valueFrom", json!({"secretKeyRef": {"key": "k"}}), "/secretKeyRef"),
                (
                    "/env/0/valueFrom",
                    json!({"secretKeyRef": {"name": "s", "key": "k", "optional": true}}),
                    "/secretKeyRef/name",
                ),
                ("/envFrom", json!([{"secretRef": {"name": "s"}}]), "/0/secretRef/name"),
                ("/envFrom", json!([{"prefix": "P", "secretRef": {}}]), "/0/secretRef"),
                // The whole of the cluster's own Secret may hold more than the token.
                ("/envFrom", json!([{"secretRef": {"name": "mine"}}]), "/0/secretRef/name"),
            ],
        ),
        rows(
            "configMaps",
            vec![
                (
                    "/env/0/valueFrom",
                    json!({"configMapKeyRef": {"name": "mine", "key": "auth_token"}}),
                    "/configMapKeyRef/name",
                ),
                ("/envFrom", json!([{"configMapRef": {"name": "m"}}]), "/0/configMapRef/name"),
                ("/envFrom", json!([{}, {"configMapRef": {"name": ""}}]), "/1/configMapRef/name"),
            ],
        ),
    ]
    .concat()
}

/// Below a pod template.
pub(super) fn pod_rows() -> Vec<Row> {
    [node_rows(), volume_rows(), identity_rows()].concat()
}

/// What of a pod is the node's, and where it may run.
fn node_rows() -> Vec<Row> {
    let preferred = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let is_in = json!({"key": "pool", "operator": "In", "values": ["a"]});
    let profile = "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1ray";
    [
        rows(
            "hostNamespaces",
            vec![
                ("/spec/hostNetwork", json!(true), ""),
                ("/spec/hostNetwork", json!("true"), ""),
                ("/spec/hostPID", json!(true), ""),
                ("/spec/hostIPC", json!(true), ""),
                ("/spec/securityContext", json!({"windowsOptions": {"hostProcess": true}}), "/windowsOptions/hostProcess"),
            ],
        ),
        rows(
            "privileged",
            vec![
                ("/spec/securityContext", json!({"seccompProfile": {"type": "Unconfined"}}), "/seccompProfile/type"),
                ("/spec/securityContext", json!({"appArmorProfile": {"type": "Unconfined"}}), "/appArmorProfile/type"),
                ("/spec/securityContext", json!({"seLinuxOptions": {"type": "init_t"}}), "/seLinuxOptions/type"),
                ("/spec/securityContext", json!({"seLinuxOptions": {"user": "u"}}), "/seLinuxOptions/user"),
                ("/spec/securityContext", json!({"seLinuxOptions": {"role": "r"}}), "/seLinuxOptions/role"),
                (
                    "/spec/securityContext",
                    json!({"sysctls": [{"name": "net.ipv4.tcp_syncookies"}, {"name": "kernel.msgmax", "value": "1"}]}),
                    "/sysctls/1/name",
                ),
                ("/spec/securityContext", json!({"sysctls": [{"name": "kernel/shm_rmid_forced"}]}), "/sysctls/0/name"),
                (profile, json!("unconfined"), ""),
            ],
        ),
        rows(
            "nodeSelectors",
            vec![
                ("/spec/nodeSelector", json!({"pool": "a"}), "/pool"),
                ("/spec/nodeSelector", json!({"kubernetes.io/hostname": null}), "/kubernetes.io~1hostname"),
                (required, json!({"nodeSelectorTerms": [{"matchExpressions": [is_in]}]}), "/nodeSelectorTerms/0/matchExpressions/0/values/0"),
                (
                    required,
                    json!({"nodeSelectorTerms": [{}, {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]}),
                    "/nodeSelectorTerms/1/matchFields/0",
                ),
                (preferred, json!([{"weight": 1, "preference": {"matchExpressions": [is_in]}}]), "/0/preference/matchExpressions/0/values/0"),
                (preferred, json!([{"preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}}]), "/0/preference/matchFields/0"),
            ],
        ),
        rows("nodeNames", vec![("/spec/nodeName", json!("control-plane"), "")]),
        rows(
            "tolerations",
            vec![
                ("/spec/tolerations", json!([{"key": "gpu", "operator": "Exists"}]), "/0/key"),
                ("/spec/tolerations", json!([{"operator": "Exists"}]), "/0"),
            ],
        ),
    ]
    .concat()
}

fn volume_rows() -> Vec<Row> {
    let mut types =
        vec![("/spec/volumes", json!([{"name": "a", "emptyDir": {}, "nfs": {"server": "s", "path": "/"}}]), "/0/nfs")];
    let others = [
        ("/spec/volumes/0/awsElasticBlockStore", "volumeID"),
        ("/spec/volumes/0/azureDisk", "diskName"),
        ("/spec/volumes/0/azureFile", "shareName"),
        ("/spec/volumes/0/cephfs", "path"),
        ("/spec/volumes/0/cinder", "volumeID"),
        ("/spec/volumes/0/csi", "driver"),
        ("/spec/volumes/0/fc", "fsType"),
        ("/spec/volumes/0/flexVolume", "driver"),
        ("/spec/volumes/0/flocker", "datasetName"),
        ("/spec/volumes/0/gcePersistentDisk", "pdName"),
        ("/spec/volumes/0/gitRepo", "repository"),
        ("/spec/volumes/0/glusterfs", "path"),
        ("/spec/volumes/0/image", "pullPolicy"),
        ("/spec/volumes/0/iscsi", "iqn"),
        ("/spec/volumes/0/photonPersistentDisk", "pdID"),
        ("/spec/volumes/0/portworxVolume", "volumeID"),
        ("/spec/volumes/0/quobyte", "volume"),
        ("/spec/volumes/0/rbd", "image"),
        ("/spec/volumes/0/scaleIO", "system"),
        ("/spec/volumes/0/storageos", "volumeName"),
        ("/spec/volumes/0/vsphereVolume", "volumePath"),
        ("/spec/volumes/0/newer", "member"),
        ("/spec/volumes/0/HostPath", "path"),
        ("/spec/volumes/0/projected/sources/0/newer", "name"),
    ];
    types.extend(others.into_iter().map(|(pointer, member)| (pointer, json!({member: "x"}), "")));
    let claim = "/spec/volumes/0/ephemeral/volumeClaimTemplate/spec";
    [
        rows("volumeTypes", types),
        rows(
            "hostPaths",
            vec![
                (
                    "/spec/volumes",
                    json!([{"name": "a", "emptyDir": {}}, {"hostPath": {"path": "/etc", "type": "Directory"}}]),
                    "/1/hostPath/path",
                ),
                ("/spec/volumes", json!({"x": {"hostPath": {"path": "/"}}}), "/x/hostPath/path"),
                ("/spec/volumes/0/hostPath", json!({"type": ""}), ""),
                ("/spec/volumes/0/hostPath", json!("/etc"), ""),
            ],
        ),
        rows(
            "secrets",
            vec![
                ("/spec/volumes/0/secret", json!({"secretName": "mine"}), "/secretName"),
                ("/spec/volumes/0/secret", json!({"items": []}), ""),
                (
                    "/spec/volumes/0/projected",
                    json!({"sources": [{"downwardAPI": {}}, {"secret": {"name": "s"}}]}),
                    "/sources/1/secret/name",
                ),
                ("/spec/volumes/0/projected/sources/0/secret", json!({}), ""),
            ],
        ),
        rows(
            "configMaps",
            vec![
                ("/spec/volumes/0/configMap", json!({"name": "m"}), "/name"),
                ("/spec/volumes/0/projected/sources/0/configMap", json!({"name": "m"}), "/name"),
            ],
        ),
        rows(
            "claims",
            vec![
                ("/spec/volumes/0/persistentVolumeClaim", json!({"claimName": "data", "readOnly": true}), "/claimName"),
                (claim, json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}}), "/dataSource/name"),
                (claim, json!({"dataSourceRef": {"kind": "VolumeSnapshot", "name": "s"}}), "/dataSourceRef/name"),
                (claim, json!({"volumeName": "pv-1"}), "/volumeName"),
                (claim, json!({"selector": {"matchLabels": {"a": "b"}}}), "/selector"),
                ("/spec/resourceClaims", json!([{"name": "a"}, {"resourceClaimName": "gpu"}]), "/1/resourceClaimName"),
                ("/spec/resourceClaims", json!([{"resourceClaimTemplateName": "gpu"}]), "/0/resourceClaimTemplateName"),
            ],
        ),
    ]
    .concat()
}

/// As what a pod runs.
fn identity_rows() -> Vec<Row> {
    [
        rows(
            "serviceAccounts",
            vec![
                ("/spec/serviceAccountName", json!("admin"), ""),
                ("/spec/serviceAccountName", json!("mine"), ""),
                ("/spec/serviceAccount", json!("admin"), ""),
                ("/spec/serviceAccountName", json!(["default"]), ""),
            ],
        ),
        rows("imagePullSecrets", vec![("/spec/imagePullSecrets", json!([{"name": "pull"}]), "/0/name")]),
        rows(
            "priorityClasses",
            vec![
                ("/spec/priorityClassName", json!("system-node-critical"), ""),
                ("/spec/priority", json!(2_000_000_000), ""),
                ("/metadata/labels/ray.io~1priority-class-name", json!("high"), ""),
                ("/metadata/labels/kueue.x-k8s.io~1priority-class", json!("high"), ""),
                ("/metadata/labels/priorityClassName", json!("high"), ""),
            ],
        ),
    ]
    .concat()
}

/// Below the RayCluster, outside of its pod templates.
pub(super) fn cluster_rows() -> Vec<Row> {
    let head = "/spec/headGroupSpec";
    let service = format!("{head}/headService");
    let ports = format!("{service}/spec/ports");
    let options = format!("{head}/ingressOptions");
    let spec = format!("{service}/spec");
    let secret = json!({"valueFrom": {"secretKeyRef": {"name": "redis", "key": "p"}}});
    let map = json!({"valueFrom": {"configMapKeyRef": {"name": "redis", "key": "u"}}});
    let gcs = "/spec/gcsFaultToleranceOptions";
    [
        rows(
            "serviceTypes",
            vec![
                (&format!("{head}/serviceType"), json!("LoadBalancer"), ""),
                (&spec, json!({"type": "NodePort"}), "/type"),
                (&spec, json!({"externalIPs": ["192.0.2.1"]}), "/externalIPs/0"),
                (&spec, json!({"externalName": "db.example.com"}), "/externalName"),
                (&spec, json!({"loadBalancerIP": "192.0.2.1"}), "/loadBalancerIP"),
                (&spec, json!({"selector": {"app": "other"}}), "/selector"),
                (&spec, json!({"healthCheckNodePort": 30_001}), "/healthCheckNodePort"),
                (&ports, json!([{"port": 80}, {"port": 81, "nodePort": 30_000}]), "/1/nodePort"),
            ],
        ),
        rows("serviceNames", vec![(&format!("{service}/metadata"), json!({"name": "yours-head-svc"}), "/name")]),
        rows(
            "ingressHosts",
            vec![
                (&format!("{head}/enableIngress"), json!(true), ""),
                (&format!("{head}/enableIngress"), json!("true"), ""),
                (&options, json!({"host": "ray.example.com"}), "/host"),
                (&options, json!({"tls": [{"hosts": ["a.example.com"]}]}), "/tls/0/hosts/0"),
            ],
        ),
        rows(
            "secrets",
            vec![
                (&options, json!({"tls": [{"secretName": "cert"}]}), "/tls/0/secretName"),
                ("/spec/authOptions", json!({"mode": "token", "secretName": "mine"}), "/secretName"),
                (&format!("{gcs}/redisPassword"), secret.clone(), "/valueFrom/secretKeyRef/name"),
                (&format!("{gcs}/redisUsername"), secret, "/valueFrom/secretKeyRef/name"),
            ],
        ),
        rows(
            "configMaps",
            vec![
                (&format!("{gcs}/redisPassword"), map.clone(), "/valueFrom/configMapKeyRef/name"),
                (&format!("{gcs}/redisUsername"), map, "/valueFrom/configMapKeyRef/name"),
            ],
        ),
        rows(
            "claims",
            vec![(gcs, json!({"backend": "rocksdb", "storage": {"claimName": "data"}}), "/storage/claimName")],
        ),
        rows(
            "priorityClasses",
            vec![
                ("/metadata/labels/ray.io~1priority-class-name", json!("high"), ""),
                ("/metadata/labels/kueue.x-k8s.io~1priority-class", json!("high"), ""),
                ("/metadata/labels/priorityClassName", json!("high"), ""),
                (&format!("{head}/labels/priorityClassName"), json!("high"), ""),
                ("/spec/workerGroupSpecs/0/labels/kueue.x-k8s.io~1priority-class", json!("high"), ""),
            ],
        ),
        rows(
            "autoscaler",
            vec![
                ("/spec/enableInTreeAutoscaling", json!(true), ""),
                ("/spec/enableInTreeAutoscaling", json!("true"), ""),
            ],
        ),
    ]
    .concat()
}
