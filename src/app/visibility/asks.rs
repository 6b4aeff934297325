//! What can be asked about a cluster.

use http::Method;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::oracle::{Key, NAMESPACES};
use super::world::Ask;
use crate::ray::owner::label;

/// A list, as it is asked for.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) selection: Vec<(&'static str, String)>,
    pub(super) limit: Option<&'static str>,
}

impl Query {
    /// The path of a list of one of its pages, or of a stream.
    pub(super) fn path(&self, base: &str, token: Option<&str>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.selection);
        query.extend_pairs(self.limit.map(|limit| ("limit", limit)));
        query.extend_pairs(token.map(|token| ("pageToken", token)));
        format!("{base}?{}", query.finish())
    }
}

pub(super) fn query() -> impl Strategy<Value = Query> {
    let mut namespaces = vec![None, Some("*"), Some("*"), Some("elsewhere")];
    namespaces.extend(NAMESPACES.map(Some));
    let mut selectors = vec![None, None, None];
    let plain = ["team", "!team", "team=blue", "team in (blue,red)", "of=a", "raygate.dev/owner", "!raygate.dev/owner"];
    selectors.extend(plain.map(|selector| Some(selector.to_owned())));
    selectors.extend(["alice", "bob", "nobody"].map(|name| Some(format!("raygate.dev/owner={}", label(name)))));
    let owners = vec![None, None, None, Some("me"), Some("alice"), Some("bob"), Some("nobody")];
    let limits = select(vec![None, Some("1"), Some("1"), Some("2"), Some("3"), Some("1000")]);
    (select(namespaces), select(selectors), select(owners), limits).prop_map(|(namespace, selector, owner, limit)| {
        let namespace = namespace.map(|namespace| ("namespace", namespace.to_owned()));
        let selector = selector.map(|selector| ("labelSelector", selector));
        let owner = owner.map(|owner| ("owner", owner.to_owned()));
        Query { selection: [namespace, selector, owner].into_iter().flatten().collect(), limit }
    })
}

/// All the ways to read a cluster. `tags` are entity tags that the caller may have guessed.
pub(super) fn reads(reference: &str, tags: &[String]) -> Vec<Ask> {
    let path = format!("/clusters/{reference}");
    let manifest = || Ask::get(format!("{path}/manifest"));
    let head = |path: &str| Ask { method: Method::HEAD, ..Ask::get(path) };
    let yaml = manifest().with("accept", "application/yaml");
    let mut asks = vec![Ask::get(&*path), head(&path), manifest(), yaml];
    asks.extend(tags.iter().map(|tag| Ask::get(&*path).with("if-none-match", tag)));
    asks
}

/// A write, as it is tried.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Patch,
    PatchFaulty,
    PatchTagged,
    PatchAbsent,
    Delete,
    DeleteTagged,
    DeleteAny,
    DeleteAbsent,
    PutAny,
    PutTagged,
    PutFaulty,
    PutNever,
    PostFaulty,
    Owner,
    OwnerFaulty,
    Put,
    PutAbsent,
    Post,
}

impl Write {
    const ALL: [Self; 18] = [
        Self::Patch,
        Self::PatchFaulty,
        Self::PatchTagged,
        Self::PatchAbsent,
        Self::Delete,
        Self::DeleteTagged,
        Self::DeleteAny,
        Self::DeleteAbsent,
        Self::PutAny,
        Self::PutTagged,
        Self::PutFaulty,
        Self::PutNever,
        Self::PostFaulty,
        Self::Owner,
        Self::OwnerFaulty,
        Self::Put,
        Self::PutAbsent,
        Self::Post,
    ];

    /// What it is answered where the name is taken unseen, if it creates: the one difference that hidden clusters make.
    pub(super) fn taken(self) -> Option<(u16, &'static str)> {
        match self {
            Self::Put | Self::Post => Some((409, "ALREADY_EXISTS")),
            Self::PutAbsent => Some((412, "PRECONDITION_FAILED")),
            Self::Patch
            | Self::PatchFaulty
            | Self::PatchTagged
            | Self::PatchAbsent
            | Self::Delete
            | Self::DeleteTagged
            | Self::DeleteAny
            | Self::DeleteAbsent
            | Self::PutAny
            | Self::PutTagged
            | Self::PutFaulty
            | Self::PutNever
            | Self::PostFaulty
            | Self::Owner
            | Self::OwnerFaulty => None,
        }
    }

    /// The request; `tag` is an entity tag that the caller may have guessed.
    pub(super) fn ask(self, key: Key, tag: &str) -> Ask {
        let at = format!("/clusters/{}", key.reference());
        let document = json!({"name": key.1, "namespace": key.0, "labels": {"made": "here"}});
        let faulty = json!({"name": key.1, "namespace": key.0, "nonsense": 1});
        let patch = || Ask::send(Method::PATCH, &*at, json!({"labels": {"changed": "yes"}}));
        let delete = || Ask { method: Method::DELETE, ..Ask::get(&*at) };
        let put = |body: &Value| Ask::send(Method::PUT, &*at, body.clone());
        match self {
            Self::Patch => patch(),
            Self::PatchFaulty => Ask::send(Method::PATCH, &*at, json!({"nonsense": 1})),
            Self::PatchTagged => patch().with("if-match", tag),
            Self::PatchAbsent => patch().with("if-none-match", "*"),
            Self::Delete => delete(),
            Self::DeleteTagged => delete().with("if-match", tag),
            Self::DeleteAny => delete().with("if-match", "*"),
            Self::DeleteAbsent => delete().with("if-none-match", "*"),
            Self::PutAny => put(&document).with("if-match", "*"),
            Self::PutTagged => put(&document).with("if-match", tag),
            Self::PutFaulty => put(&faulty),
            Self::PutNever => put(&document).with("if-match", "*").with("if-none-match", "*"),
            Self::PostFaulty => Ask::send(Method::POST, "/clusters", faulty),
            Self::Owner => Ask::send(Method::POST, format!("{at}/owner"), json!({"owner": "bob"})),
            Self::OwnerFaulty => Ask::send(Method::POST, format!("{at}/owner"), json!({"owner": 7})),
            Self::Put => put(&document),
            Self::PutAbsent => put(&document).with("if-none-match", "*"),
            Self::Post => Ask::send(Method::POST, "/clusters", document),
        }
    }
}

pub(super) fn write() -> impl Strategy<Value = (Key, Write)> {
    (select(Key::all()), select(Write::ALL.to_vec()))
}
