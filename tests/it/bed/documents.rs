//! Documents that people write, and the pods that they become.
//!
//! `tests/it/documents/` holds for each document `x.json` or `x.yaml`:
//! - `x.pods.json`, what must be there afterwards ([`Expected`]); `$CLUSTER` stands for the cluster's name;
//! - `x.prepare.yaml`, if it needs it, what must be there before: manifests, in which `$NAMESPACE` stands for the namespace.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use futures::{StreamExt as _, stream};
use http::Method;
use kube::core::TypeMeta;
use serde::Deserialize;
use serde_json::Map;
use tokio::time::timeout;

use super::*;
use crate::support::{Api as RaygateApi, PATIENCE};

const JSON: &str = "application/json";

/// Members of an answer that only the server writes.
const SERVERS: [&str; 5] = ["uid", "createTime", "resourceVersion", "links", "status"];

/// A document and what it must become.
struct Case {
    name: String,
    document: Value,
    /// The document as it is sent.
    body: String,
    /// Its media type.
    media_type: &'static str,
    expected: Expected,
    prepare: String,
}

/// What a document must become. Everything is a part of what is found, as [`lacks`] compares.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    /// The state that the cluster reaches.
    state: String,
    /// Why it isn't `READY`.
    why: Option<String>,
    /// What turns the document into the one that is answered (a merge patch).
    #[serde(default)]
    normal: Map<String, Value>,
    /// Why that isn't what was sent.
    normal_why: Option<String>,
    /// The head's pod.
    head: Value,
    /// The workers' pods, by group.
    workers: BTreeMap<String, Workers>,
    /// Other objects that must be there.
    #[serde(default)]
    objects: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workers {
    /// How many pods there are.
    count: usize,
    /// What each of them holds.
    #[serde(default)]
    pod: Map<String, Value>,
}

/// Every document that there is; a file that belongs to none is a fault.
fn cases() -> Outcome<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/documents");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a strange name")?.to_owned();
        files.insert(name, fs::read_to_string(path)?);
    }
    let mut cases = Vec::new();
    let names: Vec<String> = files.keys().filter(|name| name.matches('.').count() == 1).cloned().collect();
    for file in names {
        let text = files.remove(&file).ok_or("it was there")?;
        let wrong = |error: &dyn std::fmt::Display| format!("{file}: {error}");
        let (name, kind) = file.split_once('.').ok_or("it has a dot")?;
        let (document, media_type): (Value, _) = match kind {
            "json" => (serde_json::from_str(&text).map_err(|error| wrong(&error))?, JSON),
            "yaml" => (serde_saphyr::from_str(&text).map_err(|error| wrong(&error))?, "application/yaml"),
            _ => return Err(wrong(&"neither JSON nor YAML").into()),
        };
        let expected = files.remove(&format!("{name}.pods.json")).ok_or_else(|| wrong(&"no pods.json"))?;
        let expected: Expected = serde_json::from_str(&expected).map_err(|error| wrong(&error))?;
        if expected.why.is_none() != (expected.state == "READY")
            || expected.normal_why.is_none() != expected.normal.is_empty()
        {
            return Err(wrong(&"what is out of the ordinary needs a reason, and nothing else has one").into());
        }
        let prepare = files.remove(&format!("{name}.prepare.yaml")).unwrap_or_default();
        cases.push(Case { name: name.to_owned(), document, body: text, media_type, expected, prepare });
    }
    if files.is_empty() { Ok(cases) } else { Err(format!("of no document: {:?}", files.keys()).into()) }
}

/// Where what is found isn't what is wanted.
///
/// Each member of an object is wanted, `null` for none. Each entry of a list is wanted, in this order, with any others in
/// between; containers at their very place, as the first one is Ray's. `{"contains": […]}` wants these parts of a text.
fn lacks(wanted: &Value, found: &Value, at: &str) -> Option<String> {
    match (wanted, found) {
        (Value::Object(parts), Value::String(text)) if parts.contains_key("contains") => {
            let mut parts = parts["contains"].as_array().into_iter().flatten();
            let part = parts.find(|part| part.as_str().is_none_or(|part| !text.contains(part)))?;
            Some(format!("{at}: {part} isn't in {text:?}"))
        }
        (Value::Object(members), Value::Object(_)) => {
            members.iter().find_map(|(name, wanted)| lacks(wanted, &found[name], &format!("{at}/{name}")))
        }
        (Value::Array(wanted), Value::Array(_)) if at.ends_with("/containers") => {
            wanted.iter().enumerate().find_map(|(index, wanted)| lacks(wanted, &found[index], &format!("{at}/{index}")))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            let mut rest = found.iter();
            let missing = wanted.iter().find(|wanted| !rest.any(|found| lacks(wanted, found, at).is_none()))?;
            Some(format!("{at}: {missing} isn't there, or not in order: {}", json!(found)))
        }
        _ => (wanted != found).then(|| format!("{at}: {found} instead of {wanted}")),
    }
}

/// Fails where the two differ.
fn same<T: PartialEq + serde::Serialize>(found: &T, wanted: &T) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    Err(format!("it is\n{}\nnot\n{}", serde_json::to_string(found)?, serde_json::to_string(wanted)?).into())
}

/// Sends a document and hands out what is answered.
async fn post(raygate: &RaygateApi, document: &str, media_type: &str) -> Outcome<Value> {
    let media_type = [("content-type", media_type)];
    let answer = raygate.send(Method::POST, "/clusters", &media_type, document.to_owned()).await?;
    if answer.status == 201 { Ok(answer.json()) } else { Err(format!("{}: {}", answer.status, answer.json()).into()) }
}

/// The JSON Merge Patch of a value (RFC 7396).
fn merge(value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return *value = patch.clone() };
    if !value.is_object() {
        *value = json!({});
    }
    for (name, patch) in patch {
        if patch.is_null() {
            value.as_object_mut().and_then(|members| members.remove(name));
        } else {
            merge(&mut value[name], patch);
        }
    }
}

/// An expectation of a cluster of this name.
fn of_cluster(expected: &Value, name: &str) -> Outcome<Value> {
    Ok(serde_json::from_str(&expected.to_string().replace("$CLUSTER", name))?)
}

/// What the client said, of an answer in which nothing is to be seen beside it.
fn said(answer: &Value) -> Outcome<Map<String, Value>> {
    let mut members = answer.as_object().ok_or("no object")?.clone();
    for member in SERVERS {
        members.remove(member).ok_or_else(|| format!("no {member} in {answer}"))?;
    }
    for member in ["partial", "warnings"] {
        if let Some(value) = members.get(member) {
            return Err(format!("{member}: {value}").into());
        }
    }
    Ok(members)
}

impl Case {
    /// The answer is the document in its normal form, and the defaults of what it leaves out.
    fn is_answered_by(&self, answer: &Value) -> Outcome {
        let mut wanted = self.document.clone();
        merge(&mut wanted, &self.expected.normal.clone().into());
        let mut answered = Value::Object(said(answer)?);
        let bounds = ["replicas", "minReplicas", "maxReplicas", "numOfHosts"];
        let groups = self.expected.workers.keys().map(|group| (format!("/workerGroups/{group}"), &bounds[..]));
        let head = ("/head".to_owned(), &["cpu", "memory"][..]);
        let cluster = (String::new(), &["namespace", "rayVersion", "suspended", "head"][..]);
        for (at, defaults) in groups.chain([head, cluster]) {
            let said = wanted.pointer(&at).cloned().unwrap_or_default();
            let Some(members) = answered.pointer_mut(&at).and_then(Value::as_object_mut) else { continue };
            // A head that is there by default has nothing but what is so too.
            let is_default = |name: &str, value: &Value| name != "head" || *value == json!({});
            members.retain(|name, value| {
                said.get(name).is_some() || !defaults.contains(&&**name) || !is_default(name, value)
            });
        }
        same(&answered, &wanted)
    }

    /// What is to be found of a cluster's pods: by group (the head's is `headgroup`) how many, and what each holds.
    fn groups(&self, name: &str) -> Outcome<BTreeMap<String, (usize, Value)>> {
        let workers = self.expected.workers.iter().filter(|(_, workers)| workers.count > 0);
        let workers = workers.map(|(group, workers)| (group.clone(), (workers.count, workers.pod.clone().into())));
        let head = ("headgroup".to_owned(), (1, self.expected.head.clone()));
        workers.chain([head]).map(|(group, (count, pod))| Ok((group, (count, of_cluster(&pod, name)?)))).collect()
    }

    /// The cluster gets the state, the pods and the other objects that are expected.
    async fn comes_to_be(&self, name: &str, bed: &Bed, raygate: &RaygateApi) -> Outcome {
        let mut socket = raygate.socket(&format!("/clusters/{name}/watch"), &[]).await?;
        let status = self.status();
        let told = socket.until(|event| lacks(&status, &event["cluster"]["status"], "").is_none());
        let told = timeout(PATIENCE, told).await;
        let lacking = self.pods_lack(name, bed).await?.unwrap_or_default();
        let Ok(events) = told else {
            let cluster = raygate.get(&format!("/clusters/{name}")).await?.json();
            return Err(format!("it never is {status}; {lacking}; {cluster}").into());
        };
        events?;
        if !lacking.is_empty() {
            return Err(lacking.into());
        }
        for object in &self.expected.objects {
            bed.has(&of_cluster(object, name)?).await?;
        }
        Ok(())
    }

    /// What raygate must say of it.
    fn status(&self) -> Value {
        let are = if self.expected.state == "READY" { "ready" } else { "pending" };
        let groups = self.expected.workers.iter().map(|(group, workers)| {
            (group.clone(), json!({"desired": workers.count, are: workers.count, "terminating": 0}))
        });
        json!({"state": self.expected.state, "head": {"ready": true}, "workerGroups": groups.collect::<Map<_, _>>()})
    }

    /// What its pods lack that they should have; what Kubernetes says of a pod may take a moment.
    async fn pods_lack(&self, name: &str, bed: &Bed) -> Outcome<Option<String>> {
        let groups = self.groups(name)?;
        let mut lacking = None;
        let asked = eventually("the pods' status", async || {
            let pods = bed.pods_of(name).await?;
            let count = |group: &str| pods.get(group).map_or(0, Vec::len);
            let counts_differ =
                pods.len() != groups.len() || groups.iter().any(|(group, wanted)| count(group) != wanted.0);
            if counts_differ {
                let found: BTreeMap<_, _> = pods.iter().map(|(group, pods)| (group, pods.len())).collect();
                lacking = Some(format!("pods: {found:?}"));
                return Ok(Some(()));
            }
            let mut of_all = pods.iter().flat_map(|(group, pods)| pods.iter().map(move |pod| (group, pod)));
            lacking = of_all.find_map(|(group, pod)| lacks(&groups.get(group)?.1, pod, group));
            let is_of_status =
                |lacking: &String| groups.keys().any(|group| lacking.starts_with(&format!("{group}/status/")));
            let is_settled = !lacking.as_ref().is_some_and(is_of_status);
            Ok(is_settled.then_some(()))
        });
        match asked.await {
            Err(_) if lacking.is_some() => Ok(lacking),
            asked => asked.map(|()| lacking),
        }
    }

    /// The document becomes what it must, and what is read of it then becomes the same under another name.
    async fn becomes(&self, bed: &Bed, raygate: &RaygateApi) -> Outcome {
        let name = self.document["name"].as_str().ok_or("no name")?;
        let answer = post(raygate, &self.body, self.media_type).await?;
        self.is_answered_by(&answer)?;
        self.comes_to_be(name, bed, raygate).await?;

        let mut copy = raygate.get(&format!("/clusters/{name}")).await?.json();
        same(&said(&copy)?, &said(&answer)?)?;
        let other = format!("{name}-too");
        copy["name"] = json!(other);
        let answer = post(raygate, &copy.to_string(), JSON).await?;
        same(&said(&answer)?, &said(&copy)?)?;
        self.comes_to_be(&other, bed, raygate).await.map_err(|error| format!("as {other}: {error}"))?;

        for name in [name, &other] {
            let answer = raygate.delete(&format!("/clusters/{name}")).await?;
            if answer.status != 202 {
                return Err(format!("{name}: {}", answer.json()).into());
            }
        }
        Ok(())
    }
}

impl Bed {
    /// A cluster's pods by group.
    async fn pods_of(&self, cluster: &str) -> Outcome<BTreeMap<String, Vec<Value>>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for pod in pods.list(&ListParams::default().labels(&format!("ray.io/cluster={cluster}"))).await? {
            let pod = serde_json::to_value(pod)?;
            let group = pod["metadata"]["labels"]["ray.io/group"].as_str().ok_or("a pod of no group")?;
            groups.entry(group.to_owned()).or_default().push(pod);
        }
        Ok(groups)
    }

    /// Waits until there is such an object.
    async fn has(&self, wanted: &Value) -> Outcome {
        let kind = GroupVersionKind::try_from(TypeMeta::deserialize(wanted)?)?;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&kind));
        let name = wanted["metadata"]["name"].as_str().ok_or("no name")?;
        let object = eventually(&format!("{} {name}", kind.kind), async || Ok(api.get_opt(name).await?)).await?;
        lacks(wanted, &serde_json::to_value(object)?, &format!("{} {name}", kind.kind))
            .map_or(Ok(()), |lacks| Err(lacks.into()))
    }
}

/// Fails with what went wrong with each document.
fn assert_all(outcomes: impl IntoIterator<Item = (String, Outcome)>) {
    let failed = outcomes.into_iter().filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.err()?)));
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{} documents:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test]
#[ignore = "needs the control plane that tests/run starts"]
async fn documents_become_the_pods_that_they_say() -> Outcome {
    let bed = Bed::new("documents").await?;
    let raygate = bed.raygate(&[]).await?;
    let cases = cases()?;
    let prepare: Vec<_> = cases.iter().map(|case| case.prepare.replace("$NAMESPACE", &bed.namespace)).collect();
    bed.kubectl(&["apply", "--server-side", "-f", "-"], &prepare.join("\n---\n")).await?;
    let becoming = cases.iter().map(async |case| (case.name.clone(), case.becomes(&bed, &raygate).await));
    assert_all(stream::iter(becoming).buffer_unordered(4).collect::<Vec<_>>().await);
    Ok(())
}

#[tokio::test]
async fn documents_are_answered_in_their_normal_form() -> Outcome {
    let raygate = Raygate::memory(&[]).await?;
    let cases = cases()?;
    assert!(cases.len() >= 20, "{}", cases.len());
    let mut outcomes = Vec::new();
    for case in &cases {
        let answer = post(&raygate, &case.body, case.media_type).await;
        outcomes.push((case.name.clone(), answer.and_then(|answer| case.is_answered_by(&answer))));
    }
    assert_all(outcomes);
    Ok(())
}

#[test]
fn what_is_lacking_is_found() {
    let found = json!({
        "spec": {"containers": [{"name": "ray"}, {"name": "logs"}], "volumes": [{"name": "a", "size": 1}, {"name": "b"}]},
        "args": ["ulimit; ray start --head"],
    });
    for wanted in [
        json!({}),
        json!({"spec": {"containers": [{"name": "ray"}]}}),
        json!({"spec": {"volumes": [{"name": "a"}, {"name": "b"}], "nodeName": null}}),
        json!({"spec": {"volumes": [{"name": "b", "size": null}]}}),
        json!({"args": [{"contains": ["ray start", "--head"]}]}),
    ] {
        assert_eq!(lacks(&wanted, &found, ""), None, "{wanted}");
    }
    for wanted in [
        json!({"spec": null}),
        json!({"spec": {"nodeName": "n"}}),
        json!({"spec": {"containers": [{"name": "logs"}]}}),
        json!({"spec": {"containers": [{"name": "ray"}, {"name": "logs"}, {"name": "more"}]}}),
        json!({"spec": {"volumes": [{"name": "b"}, {"name": "a"}]}}),
        json!({"spec": {"volumes": [{"name": "a", "size": "1"}]}}),
        json!({"spec": {"volumes": [{"name": "a", "size": null}]}}),
        json!({"args": [{"contains": ["ray start", "--block"]}]}),
        json!({"args": [{"contains": [1]}]}),
        json!({"args": {"contains": ["ray"]}}),
    ] {
        assert!(lacks(&wanted, &found, "").is_some(), "{wanted}");
    }
}
