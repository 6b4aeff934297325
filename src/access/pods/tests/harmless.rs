//! What no rule closes.

use serde_json::{Value, json};

/// Values that rules which allow nothing allow, by their pointers.
pub(super) fn harmless_rows() -> Vec<(&'static str, Value)> {
    [pod_rows(), container_rows(), cluster_rows()].concat()
}

/// In a pod template.
fn pod_rows() -> Vec<(&'static str, Value)> {
    const SPEC: &str = "/spec/headGroupSpec/template/spec";
    const VOLUMES: &str = "/spec/headGroupSpec/template/spec/volumes";
    let sysctls = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ];
    let sysctls: Vec<_> = sysctls.iter().map(|name| json!({"name": name, "value": "1"})).collect();
    vec![
        (
            SPEC,
            json!({"hostNetwork": false, "hostPID": null, "hostIPC": false, "hostUsers": true, "shareProcessNamespace": true}),
        ),
        (SPEC, json!({"serviceAccountName": "default", "serviceAccount": "", "automountServiceAccountToken": true})),
        (
            SPEC,
            json!({"nodeName": "", "nodeSelector": {}, "tolerations": [], "priorityClassName": "", "priority": null}),
        ),
        (SPEC, json!({"volumes": null, "containers": null, "securityContext": null, "affinity": {"nodeAffinity": {}}})),
        (
            SPEC,
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}}),
        ),
        (SPEC, json!({"runtimeClassName": "gvisor", "schedulerName": "volcano", "newer": {"hostPath": {"path": "/"}}})),
        (
            SPEC,
            json!({"securityContext": {"runAsUser": 0, "fsGroup": 1, "sysctls": sysctls, "seccompProfile": {"type": "Localhost"}}}),
        ),
        (
            VOLUMES,
            json!([{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "downwardAPI": {}}, {"name": "c"}, {"name": "d", "hostPath": null}]),
        ),
        (
            VOLUMES,
            json!([{"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"clusterTrustBundle": {}}, {"podCertificate": {}}]}}]),
        ),
        (
            VOLUMES,
            json!([{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast", "volumeName": ""}}}}]),
        ),
        (
            "/spec/headGroupSpec/template/metadata/annotations",
            json!({
                "container.apparmor.security.beta.kubernetes.io/a": "runtime/default",
                "container.apparmor.security.beta.kubernetes.io/b": "localhost/p",
                "note": "unconfined",
            }),
        ),
    ]
}

/// In a container.
fn container_rows() -> Vec<(&'static str, Value)> {
    const CONTAINER: &str = "/spec/headGroupSpec/template/spec/containers/0";
    const SECURITY: &str = "/spec/headGroupSpec/template/spec/containers/0/securityContext";
    let baseline = json!([
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT"
    ]);
    vec![
        (CONTAINER, json!({"image": "", "ports": [{"containerPort": 6379, "hostPort": 0}, {"hostPort": null}]})),
        (
            CONTAINER,
            json!({"livenessProbe": {"httpGet": {"port": 1, "host": ""}}, "readinessProbe": {"tcpSocket": {"port": 1}}}),
        ),
        (
            CONTAINER,
            json!({"lifecycle": {"preStop": {"exec": {"command": ["ray", "stop"]}}}, "startupProbe": {"grpc": {"port": 1}}}),
        ),
        (
            CONTAINER,
            json!({"env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}),
        ),
        (
            CONTAINER,
            json!({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "auth_token"}}}], "envFrom": []}),
        ),
        (
            SECURITY,
            json!({"privileged": false, "allowPrivilegeEscalation": true, "runAsUser": 0, "procMount": "Default"}),
        ),
        (SECURITY, json!({"capabilities": {"add": baseline, "drop": ["ALL"]}, "readOnlyRootFilesystem": false})),
        (
            SECURITY,
            json!({"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}),
        ),
        (SECURITY, json!({"seLinuxOptions": {"type": "container_t", "level": "s0:c1,c2", "user": "", "role": ""}})),
        (SECURITY, json!({"seLinuxOptions": {"type": "container_engine_t"}, "windowsOptions": {"hostProcess": false}})),
    ]
}

/// Outside of pod templates.
fn cluster_rows() -> Vec<(&'static str, Value)> {
    const SERVICE: &str = "/spec/headGroupSpec/headService";
    vec![
        (
            SERVICE,
            json!({"metadata": {"name": "mine-head-svc", "annotations": {"a/b": "c"}}, "spec": {"ports": [{"port": 1, "nodePort": 0}], "selector": {}}}),
        ),
        (
            SERVICE,
            json!({"metadata": {"name": ""}, "spec": {"type": "", "externalIPs": [], "clusterIP": "None", "externalName": ""}}),
        ),
        ("/spec/headGroupSpec/serviceType", json!("")),
        ("/spec/headGroupSpec/enableIngress", json!(false)),
        ("/spec/headGroupSpec/ingressOptions", json!({"path": "/", "tls": []})),
        ("/spec/authOptions", json!({"mode": "token", "secretName": ""})),
        (
            "/spec/gcsFaultToleranceOptions",
            json!({"redisAddress": "redis:6379", "redisPassword": {"value": "p"}, "storage": {"claimName": "", "size": "1Gi"}}),
        ),
        (
            "/spec/gcsFaultToleranceOptions/redisPassword/valueFrom",
            json!({"secretKeyRef": {"name": "mine", "key": "auth_token"}}),
        ),
        (
            "/spec/autoscalerOptions",
            json!({"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "a", "mountPath": "/a"}], "securityContext": {}}),
        ),
        ("/spec/enableInTreeAutoscaling", json!(false)),
        ("/spec/enableInTreeAutoscaling", json!(null)),
        ("/spec/historyServerOptions", json!({"collectorOptions": {"resources": {}}})),
        (
            "/metadata/labels",
            json!({"ray.io/priority-class-name": "", "team": "a", "priorityClassName": "", "priority-class": "high"}),
        ),
        ("/spec/headGroupSpec/labels", json!({"zone": "a", "ray.io/priority-class-name": ""})),
        ("/metadata/annotations", json!({"nginx.ingress.kubernetes.io/server-alias": "b.example.com"})),
    ]
}
