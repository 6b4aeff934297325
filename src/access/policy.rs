//! The policy: who may do what where.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::identity::{AUTHENTICATED, Identity};
use super::pattern::{Filled, Names, Pattern};
use super::pods::PodRules;
use crate::ray::fault::Faults;
use crate::ray::name::is_dns1123_label;
use crate::ray::owner;
use crate::ray::yaml;

/// What somebody may do in a namespace; each role may do all that the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// See clusters, without the values of environment variables.
    Viewer,
    /// Create clusters, and change and delete their own.
    User,
    /// Change and delete every cluster, and hand it over.
    Operator,
    /// The same, with pods that contain anything.
    Admin,
}

impl Role {
    /// Its name, as policies have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// What a policy gives to one caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The namespaces as the policy has them.
    pub namespaces: Vec<Pattern>,
    /// What they may do there.
    pub role: Role,
    /// The namespace that they mean where they name none.
    pub default_namespace: Option<Pattern>,
    /// What the pods of their clusters may contain.
    pub pods: Arc<PodRules>,
}

/// Who may do what where.
#[derive(Debug, Clone)]
pub struct Policy {
    grants: Vec<(Subjects, Arc<Grant>)>,
    private_namespaces: Vec<Pattern>,
}

/// A policy file (YAML, or JSON, which is YAML).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    version: u32,
    grants: Vec<GivenGrant>,
    #[serde(default)]
    private_namespaces: Vec<Pattern>,
    #[serde(default)]
    pod_rules: BTreeMap<String, PodRules>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenGrant {
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    namespaces: Vec<Pattern>,
    role: Role,
    default_namespace: Option<Pattern>,
    /// The name of a set of rules.
    pod_rules: Option<String>,
}

/// Whom a grant is for.
#[derive(Debug, Clone)]
struct Subjects {
    users: Vec<String>,
    groups: Vec<String>,
}

impl Policy {
    /// Everybody may do everything.
    #[must_use]
    pub fn open() -> Self {
        let everybody = Subjects { users: vec![Identity::anonymous().user], groups: Vec::new() };
        let everything = Grant {
            namespaces: vec![Pattern::any()],
            role: Role::Admin,
            default_namespace: None,
            pods: Arc::new(PodRules::unrestricted()),
        };
        Self { grants: vec![(everybody, Arc::new(everything))], private_namespaces: Vec::new() }
    }

    /// Reads a policy file.
    ///
    /// # Errors
    /// A sentence that says what is wrong, and where.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let File { version, grants, private_namespaces, pod_rules } = read_file(bytes)?;
        if version != 1 {
            return Err(format!("version: {version} isn't known here; this is version 1"));
        }
        let built_in =
            [("restricted", Arc::new(PodRules::restricted())), ("unrestricted", Arc::new(PodRules::unrestricted()))];
        let mut sets: BTreeMap<_, _> = built_in.map(|(name, rules)| (name.to_owned(), rules)).into();
        for (name, rules) in pod_rules {
            if sets.insert(name.clone(), Arc::new(rules)).is_some() {
                return Err(format!("podRules.{name}: this name has a meaning of its own; choose another"));
            }
        }
        let grant = |(index, given): (usize, GivenGrant)| {
            given.check().map_err(|wrong| format!("grants[{index}].{wrong}"))?;
            let usual = if given.role == Role::Admin { "unrestricted" } else { "restricted" };
            let name = given.pod_rules.as_deref().unwrap_or(usual);
            let known = || sets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let pods = sets.get(name).ok_or_else(|| {
                format!("grants[{index}].podRules: there is no set `{name}` under `podRules`; there are {}", known())
            })?;
            let GivenGrant { users, groups, namespaces, role, default_namespace, .. } = given;
            let grant = Grant { namespaces, role, default_namespace, pods: Arc::clone(pods) };
            Ok((Subjects { users, groups }, Arc::new(grant)))
        };
        let grants = grants.into_iter().enumerate().map(grant).collect::<Result<_, String>>()?;
        for (index, pattern) in private_namespaces.iter().enumerate() {
            check_pattern(pattern, false).map_err(|wrong| format!("privateNamespaces[{index}]: {wrong}"))?;
        }
        Ok(Self { grants, private_namespaces })
    }

    /// What this caller is given.
    pub(super) fn grants_of(&self, identity: &Identity) -> Vec<Arc<Grant>> {
        let about = self.grants.iter().filter(|(subjects, _)| subjects.include(identity));
        about.map(|(_, grant)| Arc::clone(grant)).collect()
    }

    pub(super) fn private_namespaces(&self) -> &[Pattern] {
        &self.private_namespaces
    }
}

impl Subjects {
    fn include(&self, identity: &Identity) -> bool {
        let in_group = |group: &String| {
            identity.groups.contains(group) || (group == AUTHENTICATED && identity.credential.is_some())
        };
        self.users.contains(&identity.user) || self.groups.iter().any(in_group)
    }
}

impl GivenGrant {
    fn check(&self) -> Result<(), String> {
        if self.users.is_empty() && self.groups.is_empty() {
            return Err(format!("users: a grant is for somebody; `groups: [{AUTHENTICATED}]` is everybody"));
        }
        for (member, names) in [("users", &self.users), ("groups", &self.groups)] {
            if let Some(index) = names.iter().position(|name| !owner::is_name(name)) {
                return Err(format!("{member}[{index}]: nobody can be called this"));
            }
        }
        if self.namespaces.is_empty() {
            return Err("namespaces: a grant is for at least one namespace; `*` is all of them".into());
        }
        for (index, pattern) in self.namespaces.iter().enumerate() {
            check_pattern(pattern, true).map_err(|wrong| format!("namespaces[{index}]: {wrong}"))?;
        }
        let Some(default) = &self.default_namespace else { return Ok(()) };
        check_pattern(default, true).map_err(|wrong| format!("defaultNamespace: {wrong}"))?;
        // Whatever the caller is called.
        let sample = Names { cluster: "", user: "a" };
        let filled = default.filled(sample);
        let Some(name) = filled.as_ref().and_then(Filled::name) else {
            return Err(format!("defaultNamespace: `{}` is more than one namespace", default.as_str()));
        };
        if !self.namespaces.iter().any(|pattern| pattern.matches(sample, name)) {
            return Err(format!("defaultNamespace: `{}` isn't among the grant's namespaces", default.as_str()));
        }
        Ok(())
    }
}

/// Whether a pattern can stand for a namespace: with `a` in place of what it leaves open it is one.
fn check_pattern(pattern: &Pattern, named: bool) -> Result<(), String> {
    let filled = pattern.filled(Names { cluster: "", user: if named { "a" } else { "" } });
    if filled.is_some_and(|filled| is_dns1123_label(&filled.with("a"))) {
        return Ok(());
    }
    let name = if named { ", and {name} for the caller's name" } else { "" };
    Err(format!(
        "`{}` is no namespace: at most 63 lower-case letters, digits and hyphens; `*` stands for any of them{name}",
        pattern.as_str()
    ))
}

fn read_file<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    let read = yaml::read(bytes).map_err(first)?;
    if !read.twice.0.is_empty() {
        let mut twice = read.twice;
        read.places.explain(&mut twice);
        return Err(first(twice));
    }
    serde_path_to_error::deserialize(read.value).map_err(|error| {
        let path = error.path().to_string();
        if path == "." { error.inner().to_string() } else { format!("{path}: {}", error.inner()) }
    })
}

/// The first fault, in a sentence.
fn first(faults: Faults) -> String {
    faults
        .0
        .into_iter()
        .next()
        .map(|fault| format!("{} {}", fault.pointer, fault.message).trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Caller};
    use crate::ray::name::ClusterKey;
    use crate::ray::render::Form;

    fn caller(policy: &str, user: &str, groups: &[&str]) -> Caller {
        let access = Access::closed(Vec::new(), "default".into(), Vec::new(), Policy::read(policy.as_bytes()).unwrap());
        access.caller(Identity {
            user: user.into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            credential: Some("id".into()),
            ..Identity::anonymous()
        })
    }

    const POLICY: &str = r#"
version: 1
grants:
- {users: [alice], namespaces: [team-a, "user-{name}"], role: user, defaultNamespace: "user-{name}"}
- {groups: [ops], namespaces: ["team-*"], role: operator}
- {groups: [authenticated], namespaces: [playground], role: viewer}
- {users: [alice], namespaces: [team-a], role: viewer}
privateNamespaces: ["user-*", team-a]
"#;

    #[test]
    fn the_strongest_role_of_a_namespace_counts() {
        let namespaces = ["team-a", "team-b", "team", "user-alice", "user-bob", "user-*", "playground", "default", ""];
        let (user, operator, viewer) = (Some("user"), Some("operator"), Some("viewer"));
        for (name, groups, roles, default) in [
            ("alice", &[][..], [user, None, None, user, None, None, viewer, None, None], "user-alice"),
            ("alice", &["ops"], [operator, operator, None, user, None, None, viewer, None, None], "user-alice"),
            ("bob", &["ops"], [operator, operator, None, None, None, None, viewer, None, None], "playground"),
            ("bob", &[], [None, None, None, None, None, None, viewer, None, None], "playground"),
            // A name that is a pattern is none.
            ("*", &[], [None, None, None, None, None, None, viewer, None, None], "playground"),
        ] {
            let caller = caller(POLICY, name, groups);
            assert_eq!(caller.default_namespace, default, "{name} {groups:?}");
            let found = namespaces.map(|namespace| caller.standing(namespace).map(|standing| standing.role.name()));
            assert_eq!(found, roles, "{name} {groups:?}");
        }
    }

    #[test]
    fn private_is_what_somebody_else_owns() {
        let key = ClusterKey::new("team-a", "demo");
        let (alice, ops) = (caller(POLICY, "alice", &[]), caller(POLICY, "bob", &["ops"]));
        for (owner, sees) in [(Some("alice"), Some(Form::Clear)), (Some("bob"), None), (None, Some(Form::Masked))] {
            assert_eq!(alice.sight(&key, owner), sees, "{owner:?}");
            assert_eq!(ops.sight(&key, owner), Some(Form::Clear), "{owner:?}");
        }
        assert_eq!(alice.sight(&ClusterKey::new("team-b", "demo"), Some("alice")), None, "another's namespace");
        // A viewer changes nothing, what they own neither.
        let viewer = caller(POLICY, "carol", &[]);
        let key = ClusterKey::new("playground", "demo");
        assert_eq!(
            (
                viewer.sight(&key, Some("carol")),
                viewer.standing("playground").map(|standing| standing.may_change(true))
            ),
            (Some(Form::Masked), Some(false))
        );
    }

    #[test]
    fn policies_that_are_not_right_are_refused_with_the_place() {
        let grant = |rest: &str| format!("version: 1\ngrants: [{{users: [a], namespaces: [x], role: user{rest}}}]");
        for (text, words) in [
            (String::new(), &["empty"][..]),
            ("[]".into(), &[]),
            ("version: 1".into(), &["grants"]),
            ("version: 2\ngrants: []".into(), &["version", "2"]),
            ("version: 1\ngrants: []\ngrants: []".into(), &["grants", "more than once"]),
            ("version: 1\ngrants: []\nroles: []".into(), &["roles"]),
            (grant("").replace("user}", "king}"), &["grants[0].role", "king", "viewer"]),
            (grant(", rol: user"), &["grants[0]", "rol"]),
            (grant("").replace("users: [a], ", ""), &["grants[0].users"]),
            (grant("").replace("[x]", "[]"), &["grants[0].namespaces"]),
            (grant("").replace("[x]", "[X]"), &["grants[0].namespaces[0]", "X"]),
            (grant("").replace("[x]", "[\"{cluster}\"]"), &["grants[0].namespaces[0]"]),
            (grant("").replace("[x]", "[\"{user}\"]"), &["grants[0].namespaces[0]", "{user}"]),
            (grant(", defaultNamespace: y"), &["grants[0].defaultNamespace", "y"]),
            (grant(", defaultNamespace: \"*\""), &["grants[0].defaultNamespace"]),
            (grant(", podRules: none"), &["grants[0].podRules", "none", "restricted"]),
            (grant("") + "\npodRules: {restricted: {}}", &["podRules.restricted"]),
            (grant("") + "\npodRules: {x: {hostPath: []}}", &["podRules.x", "hostPath"]),
            (grant("") + "\nprivateNamespaces: [\"user-{name}\"]", &["privateNamespaces[0]"]),
        ] {
            let why = Policy::read(text.as_bytes()).unwrap_err();
            for word in words {
                assert!(why.contains(word), "{text}: {why}");
            }
        }
    }

    #[test]
    fn roles_have_their_rules_for_pods() {
        let text = "version: 1\ngrants:\n- {users: [u], namespaces: [x], role: user}\n- {users: [o], namespaces: [x], \
                    role: operator}\n- {users: [a], namespaces: [x], role: admin}\n- {users: [s], namespaces: [x], role: \
                    user, podRules: some}\npodRules: {some: {hostNamespaces: true}}";
        for (user, rules) in [
            ("u", PodRules::restricted()),
            ("o", PodRules::restricted()),
            ("a", PodRules::unrestricted()),
            ("s", PodRules { host_namespaces: true, ..PodRules::restricted() }),
        ] {
            let identity = Identity { user: user.into(), ..Identity::anonymous() };
            let grants = Policy::read(text.as_bytes()).unwrap().grants_of(&identity);
            assert_eq!(*grants[0].pods, rules, "{user}");
        }
    }
}
