//! Places: a field of a RayCluster as a member of its document, and the other way.

use serde_json::Value;

use crate::ray::fault::{escape, unescape};
use crate::ray::members::{AUTOSCALING, CLUSTER, GROUP, HEAD_SERVICE, INGRESS, Member, NODE};

/// Where a field of a RayCluster (Kubernetes' notation, as in a refusal's causes) stands in its document, as a JSON
/// Pointer; the empty pointer, the whole document, where no member stands for it.
#[must_use]
pub fn document_pointer(field: &str, object: &Value) -> String {
    document_place(&tokens(field), object)
}

/// The same of a JSON Pointer into the RayCluster, in a document as it was sent: what stands under no member of its own
/// came with the `podTemplate`, if there is one.
#[must_use]
pub fn pointer_in_sent(pointer: &str, object: &Value, sent: &Value) -> String {
    let tokens: Vec<_> = pointer.split('/').skip(1).map(unescape).collect();
    let member = document_place(&tokens.iter().map(String::as_str).collect::<Vec<_>>(), object);
    let template = member.rsplit_once('/').map(|(node, _)| format!("{node}/podTemplate"));
    match template {
        Some(template) if sent.pointer(&member).is_none() && sent.pointer(&template).is_some() => template,
        _ => member,
    }
}

/// The same of the members of a field.
pub(super) fn document_place(members: &[&str], object: &Value) -> String {
    match members {
        ["spec", "workerGroupSpecs", index, rest @ ..] => {
            let group = index.parse::<usize>().ok().and_then(|index| object["spec"]["workerGroupSpecs"].get(index));
            let name = group.and_then(|group| group["groupName"].as_str());
            name.map_or_else(
                || "/workerGroups".to_owned(),
                |name| format!("/workerGroups/{}{}", escape(name), node_pointer(rest)),
            )
        }
        members => match (cluster_member(members), members) {
            (Some("head"), ["spec", "headGroupSpec", rest @ ..]) => format!("/head{}", node_pointer(rest)),
            (Some(member), _) => format!("/{member}"),
            (None, _) => String::new(),
        },
    }
}

/// The members of a field in Kubernetes' notation; what stands in brackets is one, dots and all.
#[must_use]
pub fn tokens(field: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (member, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        members.push(member.trim_matches('"'));
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    members
}

/// The member of a cluster that a field is told by.
fn cluster_member(field: &[&str]) -> Option<&'static str> {
    let inner = [("autoscaling", AUTOSCALING), ("headService", HEAD_SERVICE), ("ingress", INGRESS)];
    let inner = inner.into_iter().find(|(_, members)| nearest(members, field).is_some()).map(|(member, _)| member);
    inner.or_else(|| nearest(CLUSTER, field).map(|member| member.name))
}

/// The member of a head or group that a field of its entry is told by.
fn node_pointer(field: &[&str]) -> String {
    let resource = match field {
        ["template", "spec", "containers", "0", "resources", _, resource] => Some(*resource),
        _ => None,
    };
    let member = match resource {
        Some("cpu") => "cpu",
        Some("memory") => "memory",
        Some("nvidia.com/gpu") => "gpu",
        Some(_) => "resources",
        None => match nearest(GROUP, field).or_else(|| nearest(NODE, field)) {
            Some(member) => member.name,
            None => return String::new(),
        },
    };
    format!("/{member}")
}

/// The member whose place is the longest beginning of this field.
fn nearest(members: &'static [Member], field: &[&str]) -> Option<&'static Member> {
    let fits = |member: &&Member| {
        let place: Vec<_> = member.place.split('.').collect();
        field.starts_with(&place)
    };
    members.iter().filter(fits).max_by_key(|member| member.place.len())
}

/// Where a member of a document (a JSON Pointer) stands in its RayCluster.
#[must_use]
pub fn manifest_pointer(pointer: &str, object: &Value) -> String {
    let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
    let place = manifest_place(&tokens, object);
    let (["head", "env", name] | ["workerGroups", _, "env", name]) = tokens.as_slice() else { return place };
    let is_it = |item: &Value| item["name"].as_str().is_some_and(|held| escape(held) == **name);
    let env = object.pointer(&place).and_then(Value::as_array);
    match env.and_then(|env| env.iter().position(is_it)) {
        Some(index) => format!("{place}/{index}"),
        None => place,
    }
}

fn manifest_place(tokens: &[&str], object: &Value) -> String {
    let slashes = |place: &str| place.replace('.', "/");
    match tokens {
        ["head", member, rest @ ..] => format!("/spec/headGroupSpec/{}", in_node(member, rest)),
        ["workerGroups", name, rest @ ..] => {
            let groups = object["spec"]["workerGroupSpecs"].as_array();
            let at = groups
                .into_iter()
                .flatten()
                .position(|group| group["groupName"].as_str().map(escape).as_deref() == Some(name));
            let Some(at) = at else { return "/spec/workerGroupSpecs".to_owned() };
            match rest {
                [] => format!("/spec/workerGroupSpecs/{at}/groupName"),
                [member, rest @ ..] => format!("/spec/workerGroupSpecs/{at}/{}", in_node(member, rest)),
            }
        }
        ["autoscaling", member, rest @ ..] if own(AUTOSCALING, member).is_some() => in_own(AUTOSCALING, member, rest),
        ["headService", member, rest @ ..] if own(HEAD_SERVICE, member).is_some() => in_own(HEAD_SERVICE, member, rest),
        ["ingress", member, rest @ ..] if own(INGRESS, member).is_some() => in_own(INGRESS, member, rest),
        [member, rest @ ..] => match CLUSTER.iter().find(|known| known.name == *member) {
            Some(known) => with_rest(format!("/{}", slashes(known.place)), rest),
            None => String::new(),
        },
        [] => String::new(),
    }
}

fn own(members: &'static [Member], name: &str) -> Option<&'static Member> {
    members.iter().find(|member| member.name == name)
}

fn in_own(members: &'static [Member], name: &str, rest: &[&str]) -> String {
    let place = own(members, name).map(|member| member.place.replace('.', "/")).unwrap_or_default();
    with_rest(format!("/{place}"), rest)
}

fn in_node(member: &str, rest: &[&str]) -> String {
    let known = GROUP.iter().chain(NODE).find(|known| known.name == member);
    with_rest(known.map(|known| known.place.replace('.', "/")).unwrap_or_default(), rest)
}

/// Lists of a RayCluster have numbers where the document has names, so this is a list's place.
fn with_rest(place: String, rest: &[&str]) -> String {
    let listed = ["/env", "/volumes", "/imagePullSecrets"].iter().any(|list| place.ends_with(list));
    if listed || rest.is_empty() { place } else { format!("{place}/{}", rest.join("/")) }
}
