//! The lens on volumes: each with its mount in one, where the Ray container alone mounts it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::template::{CONTAINER, append, prune};
use super::{find, find_mut, fits, non_empty};
use crate::ray::members::{Kind, Member, SOURCES, VOLUME};

/// The volumes that the Ray container alone mounts, once each.
pub(super) fn view_volumes(rest: &mut Value) -> Option<Value> {
    let volumes_place = ["template", "spec", "volumes"];
    let mounts_place = [&CONTAINER[..], &["volumeMounts"]].concat();
    let volumes = find(rest, &volumes_place).and_then(Value::as_array).cloned().unwrap_or_default();
    let mounts = find(rest, &mounts_place).and_then(Value::as_array).cloned().unwrap_or_default();
    let names = Names::of(&volumes, "name");
    let mounted = Names::of(&mounts, "name");
    let paths = Names::of(&mounts, "mountPath");
    let elsewhere = mounted_elsewhere(rest);
    let mount_of: HashMap<_, _> = mounts.iter().map(|mount| (mount["name"].as_str(), mount)).collect();
    let mut seen = Map::new();
    for volume in &volumes {
        let Some(name) = volume["name"].as_str() else { continue };
        let mount = mount_of.get(&Some(name)).copied();
        let once = names.has_once(name) && mounted.has_once(name) && !elsewhere.contains(name);
        let at = |mount: &&Value| mount["mountPath"].as_str().is_some_and(|path| paths.has_once(path));
        if let Some(mount) = mount.filter(at).filter(|_| once)
            && let Some(both) = view_volume(volume, mount)
        {
            seen.insert(name.to_owned(), both);
        }
    }
    for place in [&volumes_place[..], &mounts_place] {
        if let Some(list) = find_mut(rest, place).and_then(Value::as_array_mut) {
            list.retain(|item| !item["name"].as_str().is_some_and(|name| seen.contains_key(name)));
            prune(rest, place);
        }
    }
    non_empty(seen.into())
}

/// A volume and its mount in one, if their members can say both.
fn view_volume(volume: &Value, mount: &Value) -> Option<Value> {
    let volume = volume.as_object().filter(|volume| volume.len() == 2)?;
    let mut seen = Map::new();
    for member in VOLUME.iter().take(SOURCES) {
        if let Some(source) = volume.get(member.place) {
            seen.insert(member.name.to_owned(), short_source(member, source)?);
        }
    }
    if seen.is_empty() {
        return None;
    }
    for (name, value) in mount.as_object()? {
        let member = VOLUME.iter().skip(SOURCES).find(|member| member.name == name);
        match member.filter(|member| fits(&member.kind, value)) {
            Some(member) => drop(seen.insert(member.name.to_owned(), value.clone())),
            None if name == "name" => {}
            None => return None,
        }
    }
    Some(seen.into())
}

/// A source as its name, if it says no more.
fn short_source(member: &Member, source: &Value) -> Option<Value> {
    let held = source.as_object()?;
    if let Kind::Named(_, named) = member.kind
        && held.len() == 1
        && let Some(name) = held.get(named).filter(|name| name.is_string())
    {
        return Some(name.clone());
    }
    Some(source.clone())
}

pub(super) fn build_volumes(node: &Map<String, Value>, entry: &mut Value) {
    let volumes = node.get("volumes").and_then(Value::as_object);
    let volumes = || volumes.into_iter().flatten().filter_map(|(name, volume)| Some((name, volume.as_object()?)));
    let built = volumes().map(|(name, volume)| {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.as_str().into());
        for member in VOLUME.iter().take(SOURCES) {
            let source = match (volume.get(member.name), member.kind) {
                (Some(Value::String(text)), Kind::Named(_, named)) => Some(json!({named: text})),
                (source, _) => source.cloned(),
            };
            entry.extend(source.map(|source| (member.place.to_owned(), source)));
        }
        entry.into()
    });
    append(entry, &["template", "spec", "volumes"], built);
    let mounts = volumes().map(|(name, volume)| {
        let mut mount = Map::new();
        mount.insert("name".to_owned(), name.as_str().into());
        for member in VOLUME.iter().skip(SOURCES) {
            mount.extend(volume.get(member.name).map(|value| (member.name.to_owned(), value.clone())));
        }
        mount.into()
    });
    append(entry, &[&CONTAINER[..], &["volumeMounts"]].concat(), mounts);
}

/// Names of volumes that a container beside the Ray container mounts, or that the Ray container has as a device.
fn mounted_elsewhere(rest: &Value) -> HashSet<String> {
    let spec = &rest["template"]["spec"];
    let mut names = HashSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            for mounts in ["volumeMounts", "volumeDevices"] {
                let is_rays = list == "containers" && index == 0 && mounts == "volumeMounts";
                for mount in container[mounts].as_array().into_iter().flatten().filter(|_| !is_rays) {
                    names.extend(mount["name"].as_str().map(str::to_owned));
                }
            }
        }
    }
    names
}

/// How often each name occurs in a list.
pub(super) struct Names(HashMap<String, usize>);

impl Names {
    pub(super) fn of(list: &[Value], member: &str) -> Self {
        let mut names = HashMap::new();
        for name in list.iter().filter_map(|item| item[member].as_str()) {
            *names.entry(name.to_owned()).or_default() += 1;
        }
        Self(names)
    }

    pub(super) fn has_once(&self, name: &str) -> bool {
        self.0.get(name) == Some(&1)
    }
}
