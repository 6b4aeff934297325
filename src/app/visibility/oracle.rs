//! Who may see what, from the documentation alone; and random policies and clusters.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::ray::facts::{NodeFact, NodeRole};

/// A cluster's namespace and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub(super) &'static str, pub(super) &'static str);

pub(super) const NAMESPACES: [&str; 4] = ["default", "team-a", "user-alice", "user-bob"];
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

impl Key {
    /// All names that clusters have in these tests.
    pub(super) fn all() -> Vec<Self> {
        NAMESPACES.iter().flat_map(|namespace| NAMES.iter().map(|name| Self(namespace, name))).collect()
    }

    pub(super) fn find(namespace: &str, name: &str) -> Option<Self> {
        Self::all().into_iter().find(|key| key.0 == namespace && key.1 == name)
    }

    /// The uid of the first cluster of this name.
    pub(super) fn uid(self) -> String {
        format!("{}-{}", self.0, self.1)
    }

    /// As a path names it.
    pub(super) fn reference(self) -> String {
        format!("{}.{}", self.1, self.0)
    }
}

/// Everybody, and the groups that they are in. A name may look like a pattern. `root` may everything in every policy.
pub(super) const PEOPLE: [(&str, &[&str]); 6] = [
    ("alice", &[]),
    ("bob", &["team"]),
    ("viv", &["team", "lookers"]),
    ("olga", &["lookers"]),
    ("*", &[]),
    (ROOT, &[]),
];
pub(super) const ROOT: &str = "root";

const ROLES: [&str; 4] = ["viewer", "user", "operator", "admin"];
const USER: usize = 1;
const OPERATOR: usize = 2;

/// One line of a policy.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    users: Vec<&'static str>,
    groups: Vec<&'static str>,
    namespaces: Vec<&'static str>,
    role: usize,
}

/// A policy.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    grants: Vec<Grant>,
    private: Vec<&'static str>,
    /// The namespaces served; none for all.
    pub(super) served: Vec<&'static str>,
}

/// How somebody sees a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    Hidden,
    Masked,
    Clear,
}

/// Whether a pattern stands for a name: `*` is any run of characters, `{name}` is the user's name.
fn fits(pattern: &str, user: &str, name: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix("{name}") {
        return name.strip_prefix(user).is_some_and(|name| fits(rest, user, name));
    }
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty(),
        Some('*') => (0..=name.len()).any(|skipped| fits(letters.as_str(), user, &name[skipped..])),
        Some(letter) => name.strip_prefix(letter).is_some_and(|name| fits(letters.as_str(), user, name)),
    }
}

impl Rules {
    /// Everybody may look at everything but what is somebody else's; it is said so many times.
    pub(super) fn lookers(times: usize) -> Self {
        let all = || vec!["*"];
        let everybody = Grant { users: Vec::new(), groups: vec!["authenticated"], namespaces: all(), role: 0 };
        let root = Grant { users: vec![ROOT], groups: Vec::new(), namespaces: all(), role: 3 };
        let grants = std::iter::repeat_n(everybody, times).chain([root]).collect();
        Self { grants, private: all(), served: Vec::new() }
    }

    /// The same, and one who may everything.
    pub(super) fn and_admin(mut self, user: &'static str) -> Self {
        self.grants.push(Grant { users: vec![user], groups: Vec::new(), namespaces: vec!["*"], role: 3 });
        self
    }

    /// As a policy file.
    pub(super) fn file(&self) -> String {
        let grant = |grant: &Grant| {
            let Grant { users, groups, namespaces, role } = grant;
            json!({"users": users, "groups": groups, "namespaces": namespaces, "role": ROLES[*role]})
        };
        let grants: Vec<_> = self.grants.iter().map(grant).collect();
        json!({"version": 1, "grants": grants, "privateNamespaces": self.private}).to_string()
    }

    fn grants_of(&self, user: &str) -> impl Iterator<Item = &Grant> {
        let groups = PEOPLE.iter().find(|(name, _)| *name == user).map(|(_, groups)| *groups).unwrap_or_default();
        self.grants.iter().filter(move |grant| {
            let named = grant.users.contains(&user);
            named || grant.groups.iter().any(|group| *group == "authenticated" || groups.contains(group))
        })
    }

    /// Whether they may do anything anywhere.
    pub(super) fn knows(&self, user: &str) -> bool {
        self.grants_of(user).next().is_some()
    }

    /// The strongest role in a namespace.
    pub(super) fn role(&self, user: &str, namespace: &str) -> Option<usize> {
        if !self.served.is_empty() && !self.served.contains(&namespace) {
            return None;
        }
        let here = |grant: &&Grant| grant.namespaces.iter().any(|pattern| fits(pattern, user, namespace));
        self.grants_of(user).filter(here).map(|grant| grant.role).max()
    }

    pub(super) fn may_create(&self, user: &str, namespace: &str) -> bool {
        self.role(user, namespace) >= Some(USER)
    }

    /// How they see a cluster of this owner in a namespace.
    pub(super) fn sight(&self, user: &str, namespace: &str, owner: Option<&str>) -> Sight {
        let Some(role) = self.role(user, namespace) else { return Sight::Hidden };
        let (own, nobodys) = (owner == Some(user), owner.is_none());
        if role >= OPERATOR || (own && role >= USER) {
            return Sight::Clear;
        }
        let private = self.private.iter().any(|pattern| fits(pattern, "", namespace));
        if own || nobodys || !private { Sight::Masked } else { Sight::Hidden }
    }
}

/// A cluster of the test's making.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cluster {
    pub(super) owner: Option<&'static str>,
    pub(super) team: Option<&'static str>,
    /// Which value stands wherever one is masked.
    pub(super) secret: u32,
    shape: Shape,
    /// Its head's pod, and whether that is ready.
    head: Option<bool>,
    deleting: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    Workers,
    /// A number of replicas that is none.
    Unreadable,
    /// A masked value of a type that is none.
    UnreadableSecret,
}

/// What every masked value has in it, unless it is empty.
pub(super) const MARKS: [&str; 2] = ["s3cr3t", "98765"];

impl Cluster {
    /// A plain one of this owner.
    pub(super) fn of(owner: Option<&'static str>) -> Self {
        Self { owner, team: None, secret: 1, shape: Shape::Plain, head: None, deleting: false }
    }

    /// The RayCluster.
    pub(super) fn object(&self, key: Key, uid: &str, version: u64) -> Value {
        let Self { owner, team, secret, shape, deleting, .. } = self;
        let text = if *secret == 0 { String::new() } else { format!("{}-{secret}", MARKS[0]) };
        let container = json!({
            "name": "ray-head", "image": "rayproject/ray:2.52.0",
            "env": [{"name": "A", "value": text}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "livenessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "h", "value": text}]}},
        });
        let mut object = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {
                "namespace": key.0, "name": key.1, "uid": uid, "resourceVersion": version.to_string(),
                "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 1,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": text, "note": "n"},
                "labels": {"of": key.1},
            },
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": {
                    "rayStartParams": {"redis-password": text, "num-cpus": "0"},
                    "template": {"spec": {"containers": [container]}},
                },
                "gcsFaultToleranceOptions": {"redisAddress": "r:1", "redisPassword": {"value": text}},
            },
            "status": {"head": {"podIP": "10.0.0.1"}},
        });
        let metadata = &mut object["metadata"];
        if let Some(owner) = owner {
            metadata["annotations"]["raygate.dev/owner"] = (*owner).into();
            metadata["labels"]["raygate.dev/owner"] = crate::ray::owner::label(owner).into();
        }
        if let Some(team) = team {
            metadata["labels"]["team"] = (*team).into();
        }
        if *deleting {
            metadata["deletionTimestamp"] = "2020-01-02T00:00:00Z".into();
        }
        let group = |replicas: Value| json!([{"groupName": "w", "replicas": replicas, "template": {"spec": {"containers": [{"name": "ray-worker", "env": [{"name": "A", "value": text}]}]}}}]);
        match shape {
            Shape::Plain => {}
            Shape::Workers => object["spec"]["workerGroupSpecs"] = group(1.into()),
            Shape::Unreadable => object["spec"]["workerGroupSpecs"] = group("one".into()),
            Shape::UnreadableSecret => {
                object["spec"]["headGroupSpec"]["rayStartParams"]["redis-password"] =
                    format!("{}{secret}", MARKS[1]).parse::<u64>().unwrap().into();
            }
        }
        object
    }

    /// Its head's pod.
    pub(super) fn pod(&self, key: Key, uid: &str) -> Option<NodeFact> {
        self.head.map(|ready| NodeFact {
            namespace: key.0.into(),
            name: format!("{uid}-head"),
            uid: format!("{uid}-pod"),
            resource_version: "1".into(),
            owner_uid: uid.into(),
            group: "headgroup".into(),
            role: NodeRole::Head,
            phase: "Running".into(),
            ready,
            ..NodeFact::default()
        })
    }
}

/// The clusters of a world.
pub(super) type Clusters = BTreeMap<Key, Cluster>;

pub(super) fn cluster() -> impl Strategy<Value = Cluster> {
    let owner = select(vec![None, Some("alice"), Some("bob"), Some("viv"), Some("*"), Some("nobody")]);
    let team = select(vec![None, Some("blue"), Some("red")]);
    let shape = prop_oneof![
        4 => Just(Shape::Plain),
        2 => Just(Shape::Workers),
        1 => Just(Shape::Unreadable),
        1 => Just(Shape::UnreadableSecret),
    ];
    let head = select(vec![None, Some(false), Some(true)]);
    let fields = (owner, team, 0..4_u32, shape, head, proptest::bool::weighted(0.1));
    fields.prop_map(|(owner, team, secret, shape, head, deleting)| Cluster {
        owner,
        team,
        secret,
        shape,
        head,
        deleting,
    })
}

/// A cluster under some of the names.
pub(super) fn clusters() -> impl Strategy<Value = Clusters> {
    let keys = Key::all();
    let one = proptest::option::weighted(0.7, cluster());
    proptest::collection::vec(one, keys.len()).prop_map(move |found| {
        keys.iter().copied().zip(found).filter_map(|(key, cluster)| Some((key, cluster?))).collect()
    })
}

fn grant() -> impl Strategy<Value = Grant> {
    let users = subsequence(PEOPLE.map(|(name, _)| name).to_vec(), 0..=2);
    let groups = select(vec![vec!["team"], vec!["lookers"], vec!["authenticated"], vec!["team", "lookers"]]);
    let patterns = vec!["*", "default", "team-*", "team-a", "user-{name}", "user-*", "*-a", "*a*", "{name}"];
    let role = prop_oneof![4 => Just(0_usize), 4 => Just(1), 1 => Just(2), 1 => Just(3)];
    (users, groups, subsequence(patterns, 1..=3), role).prop_map(|(users, groups, namespaces, role)| {
        let groups = if users.is_empty() { groups } else { Vec::new() };
        Grant { users, groups, namespaces, role }
    })
}

pub(super) fn rules() -> impl Strategy<Value = Rules> {
    let private = subsequence(vec!["*", "user-*", "team-a", "*a*", "default"], 0..=2);
    (proptest::collection::vec(grant(), 1..5), private).prop_map(|(mut grants, private)| {
        grants.push(Grant { users: vec![ROOT], groups: Vec::new(), namespaces: vec!["*"], role: 3 });
        Rules { grants, private, served: Vec::new() }
    })
}

/// One of the people, not `root`.
pub(super) fn somebody() -> impl Strategy<Value = &'static str> {
    select(PEOPLE[..PEOPLE.len() - 1].iter().map(|(name, _)| *name).collect::<Vec<_>>())
}
