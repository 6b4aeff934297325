//! A container, and what else has its members: the autoscaler's options and the history server's collector.

use super::at::At;
use super::judge::{Judge, clip, written};

/// The capabilities that the baseline of the Pod Security Standards lets a container add.
const CAPABILITIES: [&str; 13] = [
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
    "SYS_CHROOT",
];

/// The types of SELinux that the baseline allows.
const SELINUX_TYPES: [&str; 4] = ["container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// The sysctls that the baseline allows.
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];

/// Where the kubelet sends probes and handlers, if not to the pod.
const HOSTS: [&str; 8] = [
    "livenessProbe/httpGet/host",
    "livenessProbe/tcpSocket/host",
    "readinessProbe/httpGet/host",
    "readinessProbe/tcpSocket/host",
    "startupProbe/httpGet/host",
    "startupProbe/tcpSocket/host",
    "lifecycle/*/httpGet/host",
    "lifecycle/*/tcpSocket/host",
];

impl Judge<'_> {
    /// A container of any kind. One without an image can't run.
    pub(super) fn container(&mut self, container: &At<'_>) {
        let rules = self.rules;
        self.named("images", &rules.images, "image", container.get("image").as_ref());
        let ports = container.all("ports/*/hostPort");
        for port in ports.iter().filter(|port| *port.value != 0) {
            self.off("hostNamespaces", rules.host_namespaces, "hostPort", Some(port));
        }
        let hosts = HOSTS.iter().flat_map(|path| container.all(path));
        for host in hosts.filter(|host| !host.text().is_empty()) {
            self.off("hostNamespaces", rules.host_namespaces, "host", Some(&host));
        }
        if let Some(context) = container.get("securityContext") {
            self.security(&context);
        }
        container.all("env/*/valueFrom").iter().for_each(|source| self.variable_source(source));
        for from in container.all("envFrom/*/secretRef") {
            self.reference("secrets", &rules.secrets, "name", &from);
        }
        for from in container.all("envFrom/*/configMapRef") {
            self.reference("configMaps", &rules.config_maps, "name", &from);
        }
    }

    /// Where an environment variable has its value from.
    pub(super) fn variable_source(&mut self, source: &At<'_>) {
        if let Some(secret) = source.get("secretKeyRef") {
            let (name, key) = (secret.text_of("name"), secret.text_of("key"));
            let own = !name.is_empty() && name == self.names.cluster && key == "auth_token";
            if !own {
                self.reference("secrets", &self.rules.secrets, "name", &secret);
            }
        }
        if let Some(map) = source.get("configMapKeyRef") {
            self.reference("configMaps", &self.rules.config_maps, "name", &map);
        }
    }

    /// The security context of a pod or a container.
    pub(super) fn security(&mut self, context: &At<'_>) {
        let rules = self.rules;
        self.off("privileged", rules.privileged, "privileged", context.get("privileged").as_ref());
        for process in context.all("windowsOptions/hostProcess") {
            self.off("hostNamespaces", rules.host_namespaces, "hostProcess", Some(&process));
        }
        for (what, path, harmless) in [
            ("procMount", "procMount", &["Default"][..]),
            ("seccompProfile", "seccompProfile/type", &["RuntimeDefault", "Localhost"]),
            ("appArmorProfile", "appArmorProfile/type", &["RuntimeDefault", "Localhost"]),
            ("seLinuxOptions.type", "seLinuxOptions/type", &SELINUX_TYPES),
            ("seLinuxOptions.user", "seLinuxOptions/user", &[]),
            ("seLinuxOptions.role", "seLinuxOptions/role", &[]),
            ("sysctls", "sysctls/*/name", &SYSCTLS),
        ] {
            context.all(path).iter().for_each(|value| self.unprivileged(what, Some(value), harmless));
        }
        for added in context.all("capabilities/add/*") {
            self.capability(&added);
        }
    }

    /// A capability that is added. `ALL`, which container runtimes read in any case, is no name that a pattern meets by
    /// chance.
    fn capability(&mut self, added: &At<'_>) {
        let (name, patterns) = (added.text(), &self.rules.capabilities);
        let allowed = if name.eq_ignore_ascii_case("ALL") {
            patterns.iter().any(|pattern| pattern.is_any() || pattern.as_str() == "ALL")
        } else {
            CAPABILITIES.contains(&&*name) || self.fits(patterns, &name)
        };
        if !allowed {
            let message = format!("You may not add the capability {} (`capabilities`).", clip(&name));
            let may = CAPABILITIES.iter().map(|&name| name.into()).chain(written(patterns)).collect();
            self.refuse("capabilities", added, message, may);
        }
    }
}
