//! A volume of a pod.

use super::at::At;
use super::judge::{Judge, clip, has_any};

/// What a volume of a type that has no rule of its own may name a Secret with.
const SECRET_NAMES: [&str; 3] = ["secretName", "secretRef/name", "nodePublishSecretRef/name"];

impl Judge<'_> {
    /// A volume; of several sources each is judged.
    pub(super) fn volume(&mut self, volume: &At<'_>) {
        let rules = self.rules;
        for (kind, source) in volume.members().filter(|(kind, source)| *kind != "name" && !source.value.is_null()) {
            match kind {
                "emptyDir" | "downwardAPI" => {}
                "hostPath" => self.host_path(&source),
                "configMap" => self.reference("configMaps", &rules.config_maps, "name", &source),
                "secret" => self.reference("secrets", &rules.secrets, "secretName", &source),
                "projected" => source.all("sources/*").iter().for_each(|part| self.projected(part)),
                "persistentVolumeClaim" => self.reference("claims", &rules.claims, "claimName", &source),
                "ephemeral" => source.all("volumeClaimTemplate/spec").iter().for_each(|claim| self.claim(claim)),
                _ => self.other_volume(kind, &source),
            }
        }
    }

    /// A path that could mean another than it says isn't compared.
    fn host_path(&mut self, source: &At<'_>) {
        let paths = &self.rules.host_paths;
        let at = source.get("path");
        let path = source.text_of("path");
        let plain = |part: &str| !["", ".", ".."].contains(&part);
        let straight = path == "/" || path.strip_prefix('/').is_some_and(|path| path.split('/').all(plain));
        let allowed = has_any(paths) || (straight && self.fits(paths, &path));
        if !allowed {
            self.not_among("hostPaths", paths, "hostPath", at.as_ref().unwrap_or(source), &path);
        }
    }

    /// One part of a projected volume. A token is one of the pod's own service account.
    fn projected(&mut self, part: &At<'_>) {
        let rules = self.rules;
        for (kind, source) in part.members().filter(|(_, source)| !source.value.is_null()) {
            match kind {
                "secret" => self.reference("secrets", &rules.secrets, "name", &source),
                "configMap" => self.reference("configMaps", &rules.config_maps, "name", &source),
                "downwardAPI" | "serviceAccountToken" | "clusterTrustBundle" | "podCertificate" => {}
                _ => {
                    let what = format!("projected.{}", clip(kind));
                    self.listed("volumeTypes", &rules.volume_types, &what, &source, kind);
                }
            }
        }
    }

    /// The claim that an ephemeral volume makes: an empty one is anybody's, one with something in it isn't.
    fn claim(&mut self, spec: &At<'_>) {
        let claims = &self.rules.claims;
        for member in ["dataSource", "dataSourceRef"] {
            if let Some(source) = spec.get(member) {
                self.reference("claims", claims, "name", &source);
            }
        }
        for namespace in spec.all("dataSourceRef/namespace").iter().filter(|at| !at.text().is_empty()) {
            self.needs_any("claims", claims, "A claim from another namespace", namespace);
        }
        for (what, member) in [("`volumeName`", "volumeName"), ("`selector`", "selector")] {
            if let Some(at) = spec.get(member).filter(|at| !at.text().is_empty()) {
                self.needs_any("claims", claims, what, &at);
            }
        }
    }

    /// A volume of a type that must be allowed.
    fn other_volume(&mut self, kind: &str, source: &At<'_>) {
        let rules = self.rules;
        if !self.fits(&rules.volume_types, kind) {
            self.not_among("volumeTypes", &rules.volume_types, "volumes", source, kind);
        }
        for name in SECRET_NAMES.iter().flat_map(|path| source.all(path)) {
            self.named("secrets", &rules.secrets, "secretName", Some(&name));
        }
        if kind == "image" {
            self.named("images", &rules.images, "reference", source.get("reference").as_ref());
        }
    }
}
