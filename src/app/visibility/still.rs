//! Two worlds that stand still but for what the caller writes.

use proptest::prelude::*;
use serde_json::Value;

use super::asks::{Query, Write, query, reads, write};
use super::config;
use super::oracle::{Clusters, Key, MARKS, NAMES, ROOT, Rules, Sight, cluster, clusters, rules, somebody};
use super::world::{Answer, Ask, Cursors, Lines, World, run, settle};
use crate::ray::owner::owner;

/// Two worlds that are to be the same to a caller, and what the caller asks.
#[derive(Debug, Clone)]
struct Case {
    rules: Rules,
    caller: &'static str,
    worlds: [Clusters; 2],
    queries: Vec<Query>,
    writes: Vec<(Key, Write)>,
}

impl Case {
    fn sight(&self, key: Key, owner: Option<&str>) -> Sight {
        self.rules.sight(self.caller, key.0, owner)
    }

    /// What the second world has under a name is this, if the caller may not see it either.
    fn hide(&mut self, others: &Clusters) {
        for key in Key::all() {
            let is_hidden = |cluster| self.sight(key, cluster) == Sight::Hidden;
            if self.worlds[0].get(&key).is_none_or(|cluster| is_hidden(cluster.owner)) {
                let other = others.get(&key).filter(|cluster| is_hidden(cluster.owner)).cloned();
                self.worlds[1].remove(&key);
                self.worlds[1].extend(other.map(|other| (key, other)));
            }
        }
    }

    /// The second world has these values where the caller sees them masked, or nothing at all.
    fn mask(&mut self, secrets: &Clusters) {
        for (key, cluster) in self.worlds[0].clone() {
            if self.sight(key, cluster.owner) != Sight::Clear
                && let (Some(other), Some(secret)) = (self.worlds[1].get_mut(&key), secrets.get(&key))
            {
                other.secret = secret.secret;
            }
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let queries = proptest::collection::vec(query(), 12);
    let writes = proptest::collection::vec(write(), 20);
    let served = proptest::bool::weighted(0.2);
    (rules(), somebody(), clusters(), queries, writes, served).prop_map(
        |(mut rules, caller, clusters, queries, writes, some)| {
            rules.served = if some { vec!["default", "team-a", "user-alice"] } else { Vec::new() };
            Case { rules, caller, worlds: [clusters.clone(), clusters], queries, writes }
        },
    )
}

proptest! {
    #![proptest_config(config(0x51, 32))]

    #[test]
    fn hidden_clusters_make_no_difference(mut case in case(), others in clusters()) {
        case.hide(&others);
        run(compare(&case));
    }

    #[test]
    fn masked_values_make_no_difference(mut case in case(), secrets in clusters()) {
        case.mask(&secrets);
        run(compare(&case));
    }

    #[test]
    fn nothing_masked_is_ever_told(case in case(), secret in cluster()) {
        let mut case = case;
        case.worlds[0].values_mut().for_each(|cluster| cluster.secret = secret.secret + 1);
        run(read_all(&case));
    }
}

/// A service per world, and what both know.
struct Pair<'a> {
    case: &'a Case,
    worlds: [World; 2],
    /// Entity tags of the clusters in clear, from both worlds.
    tags: Vec<(Key, [String; 2])>,
}

/// What the caller is answered is the same in both worlds.
async fn compare(case: &Case) {
    let pair = Pair::new(case).await;
    pair.read().await;
    pair.follow().await;
    pair.count().await;
    pair.write().await;
}

impl<'a> Pair<'a> {
    async fn new(case: &'a Case) -> Self {
        let world = async |at: usize| World::new(&case.rules.served, &case.rules, &case.worlds[at]).await;
        let worlds = [world(0).await, world(1).await];
        let mut tags = Vec::new();
        for key in Key::all() {
            let ask = Ask::get(format!("/clusters/{}", key.reference()));
            let tag = async |world: &World| {
                let answer = world.ask(ROOT, &ask).await;
                answer.headers.get("etag").cloned().unwrap_or_else(|| r#""none""#.to_owned())
            };
            tags.push((key, [tag(&worlds[0]).await, tag(&worlds[1]).await]));
        }
        Self { case, worlds, tags }
    }

    async fn same(&self, ask: &Ask) -> Answer {
        let [one, other] = &self.worlds;
        let answer = one.ask(self.case.caller, ask).await;
        assert_eq!(answer, other.ask(self.case.caller, ask).await, "{ask:?}");
        assert!(answer.status < 500, "{ask:?} {answer:?}");
        answer
    }

    /// Everybody may read the metrics. Their lines are in no order.
    async fn count(&self) {
        let counts = async |world: &World| {
            let text = world.ask(self.case.caller, &Ask::get("/metrics")).await.body;
            let mut lines: Vec<_> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(counts(&self.worlds[0]).await, counts(&self.worlds[1]).await);
    }

    async fn read(&self) {
        for (key, tags) in &self.tags {
            for ask in reads(&key.reference(), tags) {
                self.same(&ask).await;
            }
        }
        for ask in NAMES.iter().flat_map(|name| reads(name, &[])) {
            self.same(&ask).await;
        }
        for query in &self.case.queries {
            let mut token = None;
            loop {
                let page = self.same(&Ask::get(query.path("/clusters", token.as_deref()))).await.json();
                token = page["nextPageToken"].as_str().map(str::to_owned);
                if token.is_none() {
                    break;
                }
            }
            self.read_on(query).await;
        }
    }

    /// Page tokens of somebody who sees everything, and tokens made after them, are places in what the caller sees.
    async fn read_on(&self, query: &Query) {
        let first = Query { limit: Some("1"), ..query.clone() };
        for world in &self.worlds {
            let page = world.ask(ROOT, &Ask::get(first.path("/clusters", None))).await.json();
            if let Some((made, _)) = page["nextPageToken"].as_str().and_then(|token| token.rsplit_once('~')) {
                for key in Key::all() {
                    let token = format!("{made}~{}", key.reference());
                    self.same(&Ask::get(first.path("/clusters", Some(&token)))).await;
                }
            }
        }
    }

    /// Streams begin alike, and stay alike while what is hidden changes.
    async fn follow(&self) {
        let mut paths: Vec<_> =
            self.tags.iter().map(|(key, _)| format!("/clusters/{}/watch", key.reference())).collect();
        paths.push("/watch?namespace=*".to_owned());
        paths.extend(self.case.queries.iter().map(|query| Query { limit: None, ..query.clone() }.path("/watch", None)));
        let (mut one, mut other) = (Streams::default(), Streams::default());
        for path in &paths {
            let caller = self.case.caller;
            one.open(self.worlds[0].follow(caller, path).await);
            other.open(self.worlds[1].follow(caller, path).await);
        }
        assert_eq!(one.refused, other.refused);
        assert_eq!(one.due().await, other.due().await);
        let [_, second] = &self.worlds;
        for (at, (key, cluster)) in (10_000..).zip(&self.case.worlds[1]) {
            if self.case.sight(*key, cluster.owner) == Sight::Hidden {
                second.put(*key, cluster, &key.uid(), at);
            }
        }
        settle().await;
        assert_eq!(one.due().await, other.due().await);
        tokio::time::sleep(std::time::Duration::from_secs(16)).await;
        assert_eq!(one.due().await, other.due().await, "heartbeats");
    }

    async fn write(&self) {
        let before = self.hidden();
        let mut alike = true;
        let hidden = Key::all().into_iter().filter(|key| self.worlds.iter().any(|world| self.hides(world, *key)));
        let creates = hidden.flat_map(|key| [Write::Put, Write::PutAbsent, Write::Post].map(|write| (key, write)));
        let creates: Vec<_> = creates.collect();
        for (key, write) in self.case.writes.iter().chain(&creates) {
            let (_, tags) = self.tags.iter().find(|(of, _)| of == key).unwrap();
            let ask = write.ask(*key, &tags[0]);
            let hides = |at: &usize| self.hides(&self.worlds[*at], *key);
            let hiding: Vec<_> = [0, 1].into_iter().filter(hides).collect();
            let taken = write.taken().filter(|_| self.case.rules.may_create(self.case.caller, key.0));
            if let (Some(taken), false) = (taken, hiding.is_empty()) {
                alike &= hiding.len() == 2;
                let mut answers = Vec::new();
                for at in hiding {
                    let answer = self.worlds[at].ask(self.case.caller, &ask).await;
                    let problem = answer.json();
                    assert_eq!(
                        (answer.status, problem["code"].as_str()),
                        (taken.0, Some(taken.1)),
                        "{ask:?} {problem}"
                    );
                    assert_eq!(answer.headers.get("location"), None);
                    if taken.0 == 409 {
                        assert_eq!(problem["detail"], format!("The name {} is taken.", key.1));
                    }
                    answers.push(answer);
                }
                answers.dedup();
                assert_eq!(answers.len(), 1, "{answers:?}");
            } else {
                self.same(&ask).await;
            }
            settle().await;
        }
        assert_eq!(before, self.hidden(), "what is hidden is as it was");
        self.same(&Ask::get("/clusters?namespace=*")).await;
        if alike {
            self.count().await;
        }
    }

    fn hides(&self, world: &World, key: Key) -> bool {
        world.backend.get(key).is_some_and(|object| self.case.sight(key, owner(&object)) == Sight::Hidden)
    }

    /// All that is hidden, in each world.
    fn hidden(&self) -> [Vec<(Key, Value)>; 2] {
        [0, 1].map(|at| {
            let world = &self.worlds[at];
            let keys = Key::all().into_iter().filter(|key| self.hides(world, *key));
            keys.filter_map(|key| Some((key, world.backend.get(key)?))).collect()
        })
    }
}

/// All streams of a caller in a world.
#[derive(Default)]
struct Streams {
    open: Vec<Lines>,
    refused: Vec<Answer>,
    cursors: Cursors,
}

impl Streams {
    fn open(&mut self, opened: Result<Lines, Answer>) {
        match opened {
            Ok(lines) => self.open.push(lines),
            Err(answer) => self.refused.push(answer),
        }
    }

    async fn due(&mut self) -> Vec<(Vec<String>, bool)> {
        let mut all = Vec::new();
        for stream in &mut self.open {
            let lines = stream.due().await.iter().map(|line| self.cursors.number(line)).collect();
            all.push((lines, stream.ended));
        }
        all
    }
}

/// What the caller is shown of each cluster is what the rules say: nothing, all of it, or all but what is masked.
async fn read_all(case: &Case) {
    let world = World::new(&case.rules.served, &case.rules, &case.worlds[0]).await;
    for key in Key::all() {
        let cluster = case.worlds[0].get(&key);
        let sight = cluster.map_or(Sight::Hidden, |cluster| case.sight(key, cluster.owner));
        let role = case.rules.role(case.caller, key.0);
        let ask = Ask::get(format!("/clusters/{}/manifest", key.reference()));
        let answer = world.ask(case.caller, &ask).await;
        let wanted = if role.is_none() { 403 } else { 404 };
        assert_eq!(answer.status, if sight == Sight::Hidden { wanted } else { 200 }, "{key:?} {answer:?}");
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(MARKS.iter().any(|mark| text.contains(mark)), sight == Sight::Clear, "{key:?} {text}");
        for ask in reads(&key.reference(), &[]) {
            let text = String::from_utf8_lossy(&world.ask(case.caller, &ask).await.body).into_owned();
            assert!(sight == Sight::Clear || !MARKS.iter().any(|mark| text.contains(mark)), "{ask:?} {text}");
        }
    }
    let list = world.ask(case.caller, &Ask::get("/clusters?namespace=*")).await;
    if !case.rules.knows(case.caller) {
        assert_eq!(list.status, 403);
        return;
    }
    let mut seen: Vec<_> = case.worlds[0].iter().collect();
    seen.retain(|(key, cluster)| case.sight(**key, cluster.owner) != Sight::Hidden);
    let seen: Vec<_> = seen.into_iter().map(|(key, _)| key.reference()).collect();
    let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
    let items = list.json()["items"].as_array().cloned().unwrap_or_default();
    let told: Vec<_> = items.iter().map(|item| format!("{}.{}", text(item, "name"), text(item, "namespace"))).collect();
    assert_eq!(told, seen);
}
