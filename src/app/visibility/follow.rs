//! Two worlds in which clusters and rules change, and somebody who follows.
//!
//! Both have the same story; in the second one more happens to clusters for as long as the watcher may not see them. Both
//! tell the watcher the same, and in the end it knows exactly what it may see.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::config;
use super::oracle::{Cluster, Clusters, Key, MARKS, NAMESPACES, Rules, Sight, cluster, clusters, rules, somebody};
use super::world::{Answer, Cursors, FIRST, Lines, World, run, settle};

/// One step of a story.
#[derive(Debug, Clone)]
enum Step {
    /// A cluster is made, or is otherwise from now on; or another one has taken its name.
    Put(Key, Cluster, bool),
    Delete(Key),
    /// Another policy.
    Rule(Rules),
    /// The watcher's token is taken away, or given back.
    Revoke(bool),
    Open(Subject),
    /// In the second world alone, under one of the names that are hidden: the number says which.
    Aside(usize, Cluster),
}

/// What a stream is about.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Subject {
    All,
    Namespace(&'static str),
    Team,
    One(Key),
}

impl Subject {
    fn path(self) -> String {
        match self {
            Self::All => "/watch?namespace=*".to_owned(),
            Self::Namespace(namespace) => format!("/watch?namespace={namespace}"),
            Self::Team => "/watch?namespace=*&labelSelector=team%3Dblue".to_owned(),
            Self::One(key) => format!("/clusters/{}/watch", key.reference()),
        }
    }

    fn is_about(self, key: Key, cluster: &Cluster) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.0 == namespace,
            Self::Team => cluster.team == Some("blue"),
            Self::One(one) => key == one,
        }
    }

    /// Whether somebody may ask for it at all.
    fn is_for(self, user: &str, rules: &Rules) -> bool {
        match self {
            Self::All | Self::Team => rules.knows(user),
            Self::Namespace(namespace) | Self::One(Key(namespace, _)) => rules.role(user, namespace).is_some(),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = || select(Key::all());
    let subject = prop_oneof![
        2 => Just(Subject::All),
        1 => Just(Subject::Team),
        2 => select(NAMESPACES.to_vec()).prop_map(Subject::Namespace),
        4 => key().prop_map(Subject::One),
    ];
    prop_oneof![
        8 => (key(), cluster(), proptest::bool::weighted(0.1)).prop_map(|(key, one, anew)| Step::Put(key, one, anew)),
        3 => key().prop_map(Step::Delete),
        2 => rules().prop_map(Step::Rule),
        1 => proptest::bool::weighted(0.3).prop_map(Step::Revoke),
        4 => subject.prop_map(Step::Open),
        8 => (0..24_usize, cluster()).prop_map(|(which, cluster)| Step::Aside(which, cluster)),
    ]
}

/// A story, and after which steps the watcher reads what is due.
#[derive(Debug, Clone)]
struct Story {
    watcher: &'static str,
    rules: Rules,
    clusters: Clusters,
    steps: Vec<(Step, bool)>,
}

fn story() -> impl Strategy<Value = Story> {
    let steps = proptest::collection::vec((step(), any::<bool>()), 10..50);
    let parts = (somebody(), rules(), clusters(), steps);
    parts.prop_map(|(watcher, rules, clusters, steps)| Story { watcher, rules, clusters, steps })
}

proptest! {
    #![proptest_config(config(0xf0, 70))]

    #[test]
    fn watchers_learn_what_they_may_see_and_nothing_else(story in story()) {
        run(tell(&story));
    }
}

/// A story that begins with two clusters that `viv` sees, `a` and `b` in `default`.
fn told_to_viv(steps: Vec<Step>) {
    let keys = [Key("default", "a"), Key("default", "b")];
    let clusters = keys.map(|key| (key, Cluster::of(None))).into();
    let steps = steps.into_iter().map(|step| (step, false)).collect();
    run(tell(&Story { watcher: "viv", rules: Rules::lookers(1), clusters, steps }));
}

#[test]
fn what_happens_to_one_that_is_out_of_sight_moves_no_frame() {
    let (a, b) = (Key("default", "a"), Key("default", "b"));
    told_to_viv(vec![
        Step::Put(a, Cluster::of(Some("nobody")), false),
        Step::Put(b, Cluster::of(None), false),
        Step::Aside(99, Cluster::of(Some("nobody"))),
    ]);
}

#[test]
fn one_that_is_gone_is_gone_whoever_has_taken_its_name() {
    let a = Key("default", "a");
    told_to_viv(vec![
        Step::Open(Subject::One(a)),
        Step::Delete(a),
        Step::Aside(0, Cluster::of(Some("nobody"))),
        Step::Rule(Rules::lookers(2)),
    ]);
}

/// One stream in both worlds, and what its watcher knows.
struct Follower {
    subject: Subject,
    streams: [Lines; 2],
    /// Of a stream of one cluster, its uid.
    uid: Option<String>,
    /// The uid and version of each cluster that it has been shown.
    known: BTreeMap<Key, (String, String)>,
    /// The picture that is to replace it, between `RESYNC` and `SYNCED`.
    anew: Option<BTreeMap<Key, (String, String)>>,
    /// Why it has no right to go on: what ended first, read or not, and whatever came after.
    ended: Option<&'static str>,
    over: bool,
}

/// What is true, and what has been told.
struct Told<'a> {
    watcher: &'a str,
    rules: Rules,
    /// The clusters of the first world: uid, version, cluster.
    present: BTreeMap<Key, (String, u64, Cluster)>,
    /// All that ever was.
    states: HashMap<(String, String), (Key, Cluster)>,
    /// Who has taken names in the second world that are free in the first.
    aside: BTreeMap<Key, String>,
    revoked: bool,
    followers: Vec<Follower>,
    cursors: [Cursors; 2],
}

async fn tell(story: &Story) {
    let mut told = Told {
        watcher: story.watcher,
        rules: story.rules.clone(),
        present: BTreeMap::new(),
        states: HashMap::new(),
        aside: BTreeMap::new(),
        revoked: false,
        followers: Vec::new(),
        cursors: [Cursors::default(), Cursors::default()],
    };
    for (version, key) in (FIRST..).zip(Key::all()) {
        if let Some(cluster) = story.clusters.get(&key) {
            told.is_now(key, key.uid(), version, cluster);
        }
    }
    let world = async || World::new(&[], &story.rules, &story.clusters).await;
    let worlds = [world().await, world().await];
    for subject in [Subject::All, Subject::Team, Subject::Namespace("user-alice"), Subject::One(Key("user-bob", "a"))] {
        told.open(&worlds, subject).await;
    }
    for (at, (step, read)) in story.steps.iter().enumerate() {
        told.step(&worlds, story, at, step).await;
        if *read {
            told.read().await;
        }
    }
    told.read().await;
}

impl Told<'_> {
    fn is_now(&mut self, key: Key, uid: String, version: u64, cluster: &Cluster) {
        self.states.insert((uid.clone(), version.to_string()), (key, cluster.clone()));
        self.present.insert(key, (uid, version, cluster.clone()));
    }

    fn sight(&self, key: Key, cluster: &Cluster) -> Sight {
        self.rules.sight(self.watcher, key.0, cluster.owner)
    }

    /// What the watcher of a subject is to know.
    fn truth(&self, subject: Subject) -> BTreeMap<Key, (String, String)> {
        let seen = self.present.iter().filter(|(key, (_, _, cluster))| {
            subject.is_about(**key, cluster) && self.sight(**key, cluster) != Sight::Hidden
        });
        seen.map(|(key, (uid, version, _))| (*key, (uid.clone(), version.to_string()))).collect()
    }

    async fn step(&mut self, worlds: &[World; 2], story: &Story, at: usize, step: &Step) {
        let version = 1000 * (at as u64 + 1);
        match step {
            Step::Put(key, cluster, anew) => {
                self.make_way(&worlds[1], *key, version);
                let held = self.present.get(key).filter(|_| !anew).map(|(uid, _, _)| uid.clone());
                let uid = held.unwrap_or_else(|| format!("made-{at}"));
                for world in worlds {
                    world.put(*key, cluster, &uid, version);
                }
                self.is_now(*key, uid, version, cluster);
            }
            Step::Delete(key) => {
                self.make_way(&worlds[1], *key, version);
                if let Some((uid, _, cluster)) = self.present.remove(key) {
                    for world in worlds {
                        world.backend.remove(*key, version);
                    }
                    self.states.insert((uid, version.to_string()), (*key, cluster));
                }
            }
            Step::Rule(rules) => {
                for world in worlds {
                    world.rule(rules);
                }
                self.rules = rules.clone();
                self.end();
            }
            Step::Revoke(away) => {
                for world in worlds {
                    world.revoke(story.watcher, *away);
                }
                self.revoked = *away;
                self.end();
            }
            Step::Open(subject) => self.open(worlds, *subject).await,
            Step::Aside(which, cluster) => {
                let mut keys = Key::all();
                keys.retain(|key| self.is_secret(story, at, *key, cluster));
                // What changed last is last, and more likely than others.
                keys.sort_by_key(|key| self.present.get(key).map(|(_, version, _)| *version));
                if let Some(key) = keys.get(*which).or(keys.last()).copied() {
                    let other = || self.aside.get(&key).cloned().unwrap_or_else(|| format!("aside-{at}"));
                    let uid = self.present.get(&key).map_or_else(other, |(uid, _, _)| uid.clone());
                    worlds[1].put(key, cluster, &uid, version);
                    if !self.present.contains_key(&key) {
                        self.aside.insert(key, uid);
                    }
                }
            }
        }
        settle().await;
    }

    /// The rules have changed: who has no right to go on has none for good.
    fn end(&mut self) {
        for follower in &mut self.followers {
            let code = match (self.revoked, follower.subject.is_for(self.watcher, &self.rules)) {
                (true, _) => Some("UNAUTHENTICATED"),
                (false, false) => Some("FORBIDDEN"),
                (false, true) => None,
            };
            follower.ended = follower.ended.or(code);
        }
    }

    /// Who has taken the name in the second world goes.
    fn make_way(&mut self, second: &World, key: Key, version: u64) {
        if self.aside.remove(&key).is_some() {
            second.backend.remove(key, version - 1);
        }
    }

    /// Whether the watcher may see neither this nor what is there now, until the story comes to this name again.
    fn is_secret(&self, story: &Story, at: usize, key: Key, cluster: &Cluster) -> bool {
        let rest = story.steps[at..].iter().map(|(step, _)| step);
        let until = rest.take_while(|step| !matches!(step, Step::Put(one, ..) | Step::Delete(one) if *one == key));
        let later = until.filter_map(|step| if let Step::Rule(rules) = step { Some(rules) } else { None });
        let now = self.present.get(&key).map(|(_, _, cluster)| cluster);
        let mut all = later.chain([&self.rules]);
        let owners: Vec<_> = now.into_iter().chain([cluster]).map(|cluster| cluster.owner).collect();
        all.all(|rules| owners.iter().all(|owner| rules.sight(story.watcher, key.0, *owner) == Sight::Hidden))
    }

    async fn open(&mut self, worlds: &[World; 2], subject: Subject) {
        let follow =
            async |world: &World| -> Result<Lines, Answer> { world.follow(self.watcher, &subject.path()).await };
        match (follow(&worlds[0]).await, follow(&worlds[1]).await) {
            (Ok(one), Ok(other)) => {
                let uid = match subject {
                    Subject::One(key) => self.present.get(&key).map(|(uid, _, _)| uid.clone()),
                    Subject::All | Subject::Namespace(_) | Subject::Team => None,
                };
                let (known, anew, ended) = (BTreeMap::new(), None, None);
                self.followers.push(Follower { subject, streams: [one, other], uid, known, anew, ended, over: false });
                assert!(!self.revoked && subject.is_for(self.watcher, &self.rules));
            }
            (Err(one), Err(other)) => assert_eq!(one, other, "{subject:?}"),
            (one, other) => panic!("{subject:?}: {:?} {:?}", one.err(), other.err()),
        }
    }

    async fn read(&mut self) {
        let mut followers = std::mem::take(&mut self.followers);
        for follower in &mut followers {
            let [one, other] = &mut follower.streams;
            let (lines, others) = (one.due().await, other.due().await);
            let number = |lines: &[String], cursors: &mut Cursors| -> Vec<String> {
                lines.iter().map(|line| cursors.number(line)).collect()
            };
            let [cursors, other_cursors] = &mut self.cursors;
            assert_eq!(number(&lines, cursors), number(&others, other_cursors), "{:?}", follower.subject);
            assert_eq!(one.ended, other.ended, "{:?}", follower.subject);
            let ended = one.ended;
            for line in &lines {
                self.take(follower, &serde_json::from_str(line).unwrap(), line);
            }
            follower.over = ended;
            self.judge(follower, lines.last());
        }
        followers.retain(|follower| !follower.over);
        self.followers = followers;
    }

    /// One frame: it tells of nothing that the watcher may not see, or of what it has been shown that this is gone.
    fn take(&self, follower: &mut Follower, frame: &Value, line: &str) {
        let cluster = &frame["cluster"];
        let text = |member: &str| cluster[member].as_str().unwrap_or_default().to_owned();
        let (uid, version) = (text("uid"), text("resourceVersion"));
        let known = follower.anew.as_mut().unwrap_or(&mut follower.known);
        match frame["type"].as_str().unwrap() {
            "RESYNC" => follower.anew = Some(BTreeMap::new()),
            "SYNCED" => follower.known = follower.anew.take().unwrap_or_else(|| follower.known.clone()),
            "HEARTBEAT" | "ERROR" => assert!(frame.get("cluster").is_none(), "{line}"),
            "DELETED" if version.is_empty() => {
                let key = Key::find(&text("namespace"), &text("name")).unwrap();
                assert_eq!(known.remove(&key).map(|(uid, _)| uid), Some(uid), "{line}");
                let members: Vec<_> = cluster.as_object().unwrap().keys().map(String::as_str).collect();
                assert_eq!(members, ["name", "namespace", "uid", "resourceVersion", "links", "status"], "{line}");
                assert_eq!(cluster["status"]["state"], "UNKNOWN");
            }
            event => {
                let (key, was) = &self.states[&(uid.clone(), version.clone())];
                let sight = self.sight(*key, was);
                assert!(sight != Sight::Hidden, "{line}");
                let said = cluster.to_string();
                assert!(sight == Sight::Clear || !MARKS.iter().any(|mark| said.contains(mark)), "{line}");
                assert_eq!(cluster["owner"].as_str(), was.owner);
                let before = if event == "DELETED" {
                    known.remove(key)
                } else {
                    assert!(follower.subject.is_about(*key, was), "{line}");
                    known.insert(*key, (uid.clone(), version))
                };
                let was_known = before.is_some_and(|(known, _)| known == uid);
                assert_eq!(was_known, event != "ADDED", "{line}");
            }
        }
    }

    /// All has been read: the stream has ended, or the watcher knows what it may see.
    fn judge(&self, follower: &Follower, last: Option<&String>) {
        let last: Value = last.map(|last| serde_json::from_str(last).unwrap()).unwrap_or_default();
        let code = last["error"]["code"].as_str();
        let subject = follower.subject;
        if follower.ended.is_some() {
            assert_eq!((follower.over, code), (true, follower.ended), "{subject:?}");
        } else {
            let truth = self.truth(subject);
            let gone = follower.uid.as_ref().is_some_and(|uid| truth.values().all(|(present, _)| present != uid));
            assert!(!follower.over || gone, "{subject:?} {last}");
            if !follower.over {
                // A stream of one cluster that begins anew may go on with another one that has taken the name.
                assert_eq!(follower.known, truth, "{subject:?}");
                assert!(!gone || !truth.is_empty(), "{subject:?} {last}");
            }
        }
    }
}
