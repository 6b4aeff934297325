//! A pod template.

use super::at::At;
use super::cluster::PRIORITY_LABELS;
use super::judge::{Judge, clip};

/// The annotation prefix that AppArmor profiles had before `appArmorProfile`; the container's name follows.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The most bytes of a label's key, as `IsQualifiedName` in Kubernetes' apimachinery has it.
const LONGEST_KEY: usize = 253 + 1 + 63;

impl Judge<'_> {
    /// The template of the head or of a worker group.
    pub(super) fn template(&mut self, group: &At<'_>) {
        for annotations in group.all("template/metadata/annotations") {
            self.annotations(&annotations);
        }
        for labels in group.all("template/metadata/labels") {
            for label in PRIORITY_LABELS {
                self.named("priorityClasses", &self.rules.priority_classes, label, labels.get(label).as_ref());
            }
        }
        for spec in group.all("template/spec") {
            self.pod(&spec);
            for kind in ["containers/*", "initContainers/*", "ephemeralContainers/*"] {
                spec.all(kind).iter().for_each(|container| self.container(container));
            }
            spec.all("volumes/*").iter().for_each(|volume| self.volume(volume));
        }
    }

    fn annotations(&mut self, annotations: &At<'_>) {
        for (key, at) in annotations.members().filter(|(key, _)| key.starts_with(APP_ARMOR)) {
            let profile = at.text();
            let harmless = profile == "runtime/default" || profile.starts_with("localhost/") || profile.is_empty();
            if !harmless && !self.rules.privileged {
                let message =
                    format!("You may not use the annotation `{}` with this profile (`privileged`).", clip(key));
                self.refuse("privileged", &at, message, vec!["runtime/default".into(), "localhost/*".into()]);
            }
        }
    }

    fn pod(&mut self, spec: &At<'_>) {
        let rules = self.rules;
        for member in ["hostNetwork", "hostPID", "hostIPC"] {
            self.off("hostNamespaces", rules.host_namespaces, member, spec.get(member).as_ref());
        }
        if let Some(context) = spec.get("securityContext") {
            self.security(&context);
        }
        for member in ["serviceAccountName", "serviceAccount"] {
            let account = spec.get(member).filter(|account| account.text() != "default");
            self.named("serviceAccounts", &rules.service_accounts, member, account.as_ref());
        }
        for secret in spec.all("imagePullSecrets/*/name") {
            self.named("imagePullSecrets", &rules.image_pull_secrets, "imagePullSecrets", Some(&secret));
        }
        let class = spec.get("priorityClassName");
        self.named("priorityClasses", &rules.priority_classes, "priorityClassName", class.as_ref());
        if let Some(priority) = spec.get("priority") {
            self.needs_any("priorityClasses", &rules.priority_classes, "A `priority` as a number", &priority);
        }
        for claim in spec.all("resourceClaims/*") {
            for member in ["resourceClaimName", "resourceClaimTemplateName"] {
                if claim.get(member).is_some() {
                    self.reference("claims", &rules.claims, member, &claim);
                }
            }
        }
        self.nodes(spec);
    }

    /// Where the pod may run.
    fn nodes(&mut self, spec: &At<'_>) {
        let rules = self.rules;
        self.named("nodeNames", &rules.node_names, "nodeName", spec.get("nodeName").as_ref());
        for (key, value) in spec.get("nodeSelector").iter().flat_map(At::members) {
            self.selected("nodeSelector", key, Some(&value.text()), &value);
        }
        for terms in [
            "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/*",
            "affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/*/preference",
        ] {
            for term in spec.all(terms) {
                let expressions = ["matchExpressions/*", "matchFields/*"].iter().flat_map(|path| term.all(path));
                expressions.for_each(|expression| self.expression(&expression));
            }
        }
        for toleration in spec.all("tolerations/*") {
            match toleration.get("key").filter(|key| !key.text().is_empty()) {
                Some(key) => self.listed("tolerations", &rules.tolerations, "key", &key, &key.text()),
                None => self.needs_any("tolerations", &rules.tolerations, "A toleration of everything", &toleration),
            }
        }
    }

    /// One requirement of a node affinity. `In` asks for each of its values, all else for the key. So does a key that
    /// is too long to be one: with each of its values it would be compared in the product of their lengths.
    fn expression(&mut self, expression: &At<'_>) {
        let key = expression.text_of("key");
        let values = expression.all("values/*");
        if expression.text_of("operator") != "In" || values.is_empty() || key.len() > LONGEST_KEY {
            self.selected("nodeAffinity", &key, None, expression);
            return;
        }
        for value in values {
            self.selected("nodeAffinity", &key, Some(&value.text()), &value);
        }
    }

    /// A label of nodes that is asked for. A pattern with `=` is one of key and value, any other one of the key, which
    /// has no `=` itself.
    fn selected(&mut self, what: &str, key: &str, value: Option<&str>, at: &At<'_>) {
        let pair = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
        let patterns = &self.rules.node_selectors;
        let fits = patterns.iter().any(|pattern| {
            let text = if pattern.as_str().contains('=') { &pair } else { key };
            pattern.matches(self.names, text)
        });
        if !fits {
            self.not_among("nodeSelectors", patterns, what, at, &pair);
        }
    }
}
