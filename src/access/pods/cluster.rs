//! What a RayCluster says of pods outside of their templates.

use super::at::At;
use super::differ;
use super::judge::{Judge, clip, has_any, written};
use crate::ray::name::OWN_PREFIX;

/// Labels of the cluster and of its pods from which batch schedulers take a priority: Volcano's through the operator,
/// Kueue's, and KAI's.
pub(super) const PRIORITY_LABELS: [&str; 3] =
    ["ray.io/priority-class-name", "kueue.x-k8s.io/priority-class", "priorityClassName"];

/// Where the head names its service account; the second is the first's old name.
const ACCOUNTS: [&str; 2] =
    ["headGroupSpec/template/spec/serviceAccountName", "headGroupSpec/template/spec/serviceAccount"];

impl Judge<'_> {
    /// Labels of the cluster, or those of a group's own, which the operator gives to its pods. Each is judged by itself.
    pub(super) fn labels<'v>(&mut self, held: Option<&At<'v>>, wanted: &At<'v>, path: &'v str) {
        let before = held.and_then(|held| held.all(path).pop());
        let Some(labels) = wanted.all(path).pop() else { return };
        for label in PRIORITY_LABELS {
            let (before, now) = (before.as_ref().and_then(|before| before.get(label)), labels.get(label));
            if before.map(|at| at.value) != now.as_ref().map(|at| at.value) {
                self.named("priorityClasses", &self.rules.priority_classes, label, now.as_ref());
            }
        }
    }

    /// The options of the spec that become containers, variables or volumes.
    pub(super) fn options<'v>(&mut self, held: &At<'v>, spec: &At<'v>) {
        let differs = |member| differ(held, spec, &[member]);
        if let Some(autoscaler) = spec.get("autoscalerOptions").filter(|_| differs("autoscalerOptions")) {
            self.container(&autoscaler);
        }
        if let Some(server) = spec.get("historyServerOptions").filter(|_| differs("historyServerOptions"))
            && let Some(collector) = server.get("collectorOptions")
        {
            self.container(&collector);
        }
        if let Some(auth) = spec.get("authOptions").filter(|_| differs("authOptions")) {
            let name = auth.get("secretName");
            self.named("secrets", &self.rules.secrets, "secretName", name.as_ref());
        }
        if let Some(gcs) = spec.get("gcsFaultToleranceOptions").filter(|_| differs("gcsFaultToleranceOptions")) {
            for credential in ["redisUsername/valueFrom", "redisPassword/valueFrom"] {
                gcs.all(credential).iter().for_each(|source| self.variable_source(source));
            }
            for claim in gcs.all("storage/claimName") {
                self.named("claims", &self.rules.claims, "claimName", Some(&claim));
            }
        }
    }

    /// Ray's autoscaler, with the service account of the head. The operator binds that account to a role that has the
    /// cluster's name; where none is named, it is the account that has it (`BuildRole`, `BuildRoleBinding` and
    /// `GetHeadGroupServiceAccountName` in KubeRay's `controllers/ray`). Either may have been there before.
    pub(super) fn autoscaler<'v>(&mut self, held: &At<'v>, spec: &At<'v>) {
        let rules = self.rules;
        let Some(on) = spec.get("enableInTreeAutoscaling").filter(|on| *on.value != false) else { return };
        let accounts = |spec: &At<'v>| ACCOUNTS.map(|path| spec.all(path).pop().filter(|at| !at.text().is_empty()));
        let values = |spec: &At<'v>| accounts(spec).map(|account| account.map(|account| account.value));
        let is_new = differ(held, spec, &["enableInTreeAutoscaling"]);
        if !is_new && values(held) == values(spec) {
            return;
        }
        let [named, old] = accounts(spec);
        let account = named.as_ref().or(old.as_ref());
        if !rules.autoscaler {
            let message = "With Ray's autoscaler on, the head's pod may read and patch all pods and RayClusters of the \
                           namespace, which isn't for you (`autoscaler`); ask whoever writes raygate's policy.";
            self.refuse("autoscaler", account.filter(|_| !is_new).unwrap_or(&on), message.into(), Vec::new());
        }
        let called_so = (named.is_none() && self.names.cluster == "default").then_some(&on);
        let of_all = [&named, &old].into_iter().flatten().find(|account| account.text() == "default").or(called_so);
        if let Some(at) = of_all.filter(|_| !self.fits(&rules.service_accounts, "default")) {
            let message = "With Ray's autoscaler on, the service account `default` gets its rights, and with it all pods \
                           that name none; it isn't among the `serviceAccounts` that you may use so.";
            self.refuse("serviceAccounts", at, message.into(), written(&rules.service_accounts));
        }
    }

    /// The head's service. The operator takes the name, type and addresses of `headService` as they are.
    pub(super) fn service(&mut self, head: &At<'_>) {
        let rules = self.rules;
        for (what, path) in [("serviceType", "serviceType"), ("type", "headService/spec/type")] {
            for kind in head.all(path) {
                self.named("serviceTypes", &rules.service_types, what, Some(&kind));
            }
        }
        for name in head.all("headService/metadata/name") {
            let text = name.text();
            let own = format!("{}-head-svc", self.names.cluster);
            if !text.is_empty() && *text != own && !self.fits(&rules.service_names, &text) {
                let message = format!("You may not call the head's service {} (`serviceNames`).", clip(&text));
                let allowed = std::iter::once(own).chain(written(&rules.service_names)).collect();
                self.refuse("serviceNames", &name, message, allowed);
            }
        }
        for (what, path) in [
            ("`externalIPs`", "headService/spec/externalIPs/*"),
            ("`externalName`", "headService/spec/externalName"),
            ("`loadBalancerIP`", "headService/spec/loadBalancerIP"),
            ("`selector`", "headService/spec/selector"),
            ("`nodePort`", "headService/spec/ports/*/nodePort"),
            ("`healthCheckNodePort`", "headService/spec/healthCheckNodePort"),
        ] {
            let unset = |at: &At<'_>| ["", "0", "{}"].contains(&&*at.text());
            for at in head.all(path).into_iter().filter(|at| !unset(at)) {
                self.needs_any("serviceTypes", &rules.service_types, what, &at);
            }
        }
    }

    /// The ingress. Its options are judged although it may be off: it can be turned on later.
    pub(super) fn ingress(&mut self, head: &At<'_>) {
        let rules = self.rules;
        let host = head.all("ingressOptions/host").pop();
        match (&host, enabled(head)) {
            (Some(host), _) if !host.text().is_empty() => {
                self.listed("ingressHosts", &rules.ingress_hosts, "host", host, &host.text());
            }
            (_, Some(on)) => self.needs_any("ingressHosts", &rules.ingress_hosts, "An ingress without a `host`", &on),
            (_, None) => {}
        }
        for host in head.all("ingressOptions/tls/*/hosts/*") {
            self.listed("ingressHosts", &rules.ingress_hosts, "hosts", &host, &host.text());
        }
        for name in head.all("ingressOptions/tls/*/secretName") {
            self.named("secrets", &rules.secrets, "secretName", Some(&name));
        }
    }

    /// The cluster's annotations, if there is an ingress: the operator copies all of them to it, and what its
    /// controller makes of them can't be known. Ray's own and those without a prefix mean nothing to one.
    pub(super) fn ingress_annotations<'v>(&mut self, held: &At<'v>, wanted: &At<'v>, ingress_differs: bool) {
        let hosts = &self.rules.ingress_hosts;
        let on = wanted.all("spec/headGroupSpec").iter().any(|node| enabled(node).is_some());
        if !on || has_any(hosts) {
            return;
        }
        let before = held.all("metadata/annotations").pop();
        let now = wanted.all("metadata/annotations").pop();
        for (key, at) in now.iter().flat_map(At::members) {
            let as_before = before.as_ref().and_then(|before| before.value.get(key)) == Some(at.value);
            if !may_configure_ingress(key) || (as_before && !ingress_differs) {
                continue;
            }
            self.needs_any("ingressHosts", hosts, &format!("The annotation `{}` of an ingress", clip(key)), &at);
        }
    }
}

/// Where an ingress is turned on.
fn enabled<'v>(head: &At<'v>) -> Option<At<'v>> {
    head.get("enableIngress").filter(|on| *on.value != false)
}

/// Whether an ingress controller may read this annotation. The ingress' class becomes a member of it, no annotation.
fn may_configure_ingress(key: &str) -> bool {
    let harmless = ["ray.io/", "kubectl.kubernetes.io/", OWN_PREFIX];
    key.contains('/') && key != "kubernetes.io/ingress.class" && !harmless.iter().any(|prefix| key.starts_with(prefix))
}
