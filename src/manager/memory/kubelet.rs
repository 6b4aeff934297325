//! A pod on its machine: a small model of the kubelet's `SyncPod` (1.35), in its words. Images, references and commands
//! say what goes wrong; this has the order of things, the restarts and the back-offs.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use tokio::time::Instant;

use super::command::{Run, run};
use super::image::Reference;
use super::pace::{BackOff, Now, Pace, written};
use super::reference::Objects;
use super::template::{Template, WAIT};
use crate::ray::facts::{
    ContainerFact, ContainerState, NodeFact, TEXT_LIMIT, Termination, Why, bounded, bounded_containers,
};

/// Between two attempts of the kubelet to sync a pod with an error.
const SYNC: Duration = Duration::from_secs(10);
/// What is around the pods.
#[derive(Debug)]
pub(super) struct World {
    /// Patterns of images that exist besides the known ones.
    pub(super) images: Vec<String>,
    pub(super) objects: Objects,
    pub(super) pace: Pace,
}

/// A pod that was given to a machine.
pub(super) struct Pod {
    template: Arc<Template>,
    bound: Instant,
    containers: Vec<Life>,
}

/// What becomes of one container.
#[derive(Default)]
struct Life {
    phase: Phase,
    starts: i32,
    ready: bool,
    /// Why it isn't started, where the kubelet has said so.
    why: Option<Why>,
    /// No attempt to start it before.
    not_before: Option<Instant>,
    pulls: BackOff,
    pull_error: String,
    crashes: BackOff,
    last: Option<Box<Termination>>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Created,
    Running {
        since: Instant,
        started: Timestamp,
        run: Run,
    },
    Ended {
        at: Instant,
        end: Box<Termination>,
    },
}

/// One pass over a pod.
struct Pass<'a> {
    world: &'a World,
    template: &'a Template,
    pod: &'a NodeFact,
    head_answers: bool,
    now: Now,
    wake: Option<Instant>,
}

impl Pod {
    pub(super) fn new(template: Arc<Template>, bound: Instant) -> Self {
        let containers = template.containers().map(|_| Life::default()).collect();
        Self { template, bound, containers }
    }

    /// Brings the pod as far as it can go now; answers when it must be looked at again.
    pub(super) fn sync(&mut self, fact: &NodeFact, world: &World, head_answers: bool, now: Now) -> Option<Instant> {
        let sandbox = self.bound + world.pace.start / 2;
        if now.timer < sandbox {
            return Some(sandbox);
        }
        // Objects neither come nor go here: what isn't there never will be.
        if !world.objects.can_mount(&self.template.spec) {
            return None;
        }
        let mut pass = Pass { world, template: &self.template, pod: fact, head_answers, now, wake: None };
        let mut initialized = true;
        for ((container, init), life) in self.template.containers().zip(&mut self.containers) {
            if initialized {
                pass.step(container, init, life);
                initialized = !init || life.lets_pass(container);
            }
        }
        pass.wake
    }

    /// Whether its first container (Ray's) runs and is ready.
    pub(super) fn answers(&self) -> bool {
        let mut containers = self.template.containers().zip(&self.containers);
        containers.find(|((_, init), _)| !init).is_some_and(|(_, life)| life.runs() && life.ready)
    }

    /// Whether it is over with its Ray container, which no policy starts again.
    pub(super) fn is_over(&self) -> bool {
        let never = self.template.spec.restart_policy.as_deref() == Some("Never");
        let mut containers = self.template.containers().zip(&self.containers);
        let ray = containers.find(|((_, init), _)| !init);
        never && ray.is_some_and(|(_, life)| matches!(life.phase, Phase::Ended { .. }))
    }

    /// Writes what a kubelet says of the pod.
    pub(super) fn tell(&self, fact: &mut NodeFact, now: Timestamp) {
        let init = self.template.containers().any(|(_, init)| init);
        let idle = if init { "PodInitializing" } else { "ContainerCreating" };
        let containers = self.template.containers().zip(&self.containers);
        let mut containers: Vec<_> =
            containers.map(|((container, init), life)| life.fact(container, init, idle)).collect();
        // The kubelet sorts them, init containers aside.
        let key = |container: &ContainerFact| (!container.init, (!container.init).then(|| container.name.clone()));
        containers.sort_by_cached_key(key);
        self.phase().clone_into(&mut fact.phase);
        let mut others = containers.iter().filter(|container| !container.init);
        let ready = fact.phase == "Running" && others.all(|container| container.ready);
        if ready != fact.ready || fact.ready_since.is_none() {
            fact.ready = ready;
            fact.ready_since = Some(now);
        }
        fact.containers = bounded_containers(containers);
    }

    /// `getPhase` of the kubelet.
    fn phase(&self) -> &'static str {
        let policy = self.template.spec.restart_policy.as_deref();
        let (mut alive, mut failed) = (false, false);
        for ((container, init), life) in self.template.containers().zip(&self.containers) {
            let ended = match &life.phase {
                Phase::Ended { end, .. } => Some(end.exit_code),
                Phase::Created | Phase::Running { .. } => None,
            };
            if init {
                match ended {
                    _ if is_sidecar(container) && life.starts > 0 => {}
                    Some(0) => {}
                    Some(_) if !restarts(policy, container, init, 1) => return "Failed",
                    Some(_) | None => return "Pending",
                }
                continue;
            }
            match ended {
                None if life.runs() => alive = true,
                None => return "Pending",
                Some(code) => {
                    alive |= restarts(policy, container, init, code);
                    failed |= code != 0;
                }
            }
        }
        match (alive, failed) {
            (true, _) => "Running",
            (false, true) => "Failed",
            (false, false) => "Succeeded",
        }
    }
}

/// Whether the policy starts a container again that ended so.
fn restarts(policy: Option<&str>, container: &Container, init: bool, exit_code: i32) -> bool {
    match policy.unwrap_or("Always") {
        _ if init && is_sidecar(container) => true,
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => !init || exit_code != 0,
    }
}

/// Of an init container: whether it stays beside the others.
fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

impl Life {
    fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Whether the containers after this init container may start.
    fn lets_pass(&self, container: &Container) -> bool {
        match &self.phase {
            Phase::Created => false,
            Phase::Running { .. } => is_sidecar(container),
            Phase::Ended { end, .. } => end.exit_code == 0 && !is_sidecar(container),
        }
    }

    fn fact(&self, container: &Container, init: bool, idle: &str) -> ContainerFact {
        let mut last = self.last.clone();
        let state = match (&self.phase, &self.why) {
            (Phase::Running { started, .. }, _) => ContainerState::Running(Some(*started)),
            (Phase::Created, None) => ContainerState::Waiting(Why { reason: idle.to_owned(), ..Why::default() }),
            (Phase::Created, Some(why)) => ContainerState::Waiting(why.clone()),
            (Phase::Ended { end, .. }, None) => ContainerState::Terminated(end.clone()),
            // What ended moves to the last state once the kubelet says why it isn't started again.
            (Phase::Ended { end, .. }, Some(why)) => {
                last = Some(end.clone());
                ContainerState::Waiting(why.clone())
            }
        };
        let done = matches!(&state, ContainerState::Terminated(end) if end.exit_code == 0);
        ContainerFact {
            name: container.name.clone(),
            init,
            image: bounded(container.image.clone().unwrap_or_default()),
            ready: self.ready || init && done,
            restarts: (self.starts - 1).max(0),
            state,
            last,
        }
    }
}

impl Pass<'_> {
    fn wake(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    fn after(&self, real: Duration) -> Instant {
        self.now.timer + self.world.pace.scaled(real)
    }

    /// Moves one container as far as it can go now.
    fn step(&mut self, container: &Container, init: bool, life: &mut Life) {
        self.watch(container, init, life);
        if life.runs() {
            return;
        }
        if let Phase::Ended { at, end } = &life.phase {
            let at = *at;
            if !restarts(self.template.spec.restart_policy.as_deref(), container, init, end.exit_code) {
                return;
            }
            // The kubelet hears of an end about a second later.
            let heard = at + self.world.pace.scaled(Duration::from_secs(1));
            if life.why.is_none() && self.now.timer < heard {
                return self.wake(heard);
            }
            if let Some(until) = life.crashes.until(self.world.pace, at, self.now.timer)
                && life.not_before.is_none_or(|not_before| not_before <= self.now.timer)
            {
                life.why = Some(self.crash_loop(container, life.crashes.delay));
                return self.wake(until);
            }
        }
        match life.not_before.filter(|not_before| self.now.timer < *not_before) {
            Some(not_before) => self.wake(not_before),
            None => self.start(container, init, life),
        }
    }

    /// Looks after a running container: its end, and its readiness.
    fn watch(&mut self, container: &Container, init: bool, life: &mut Life) {
        let Phase::Running { since, started, run } = &life.phase else { return };
        let ending = match run {
            Run::Ends(ending) => Some((*since + self.world.pace.scaled(ending.after), ending)),
            Run::Forever | Run::Refused(_) => None,
        };
        if let Some((at, ending)) = ending {
            if self.now.timer < at {
                self.wake(at);
            } else {
                let reason = if ending.oom { "OOMKilled" } else { reason(ending.exit_code) };
                // As the kubelet takes it: the log's end, only where that is asked for and the run failed.
                let asked = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
                let message = if asked && ending.exit_code != 0 { tail(&ending.output) } else { String::new() };
                let end = self.termination(reason, message, ending.exit_code, *started);
                return self.end(life, end);
            }
        } else if init && container.name == WAIT && self.head_answers {
            let end = self.termination("Completed", String::new(), 0, *started);
            return self.end(life, end);
        }
        // The operator gives Ray's container a probe; the others are ready as soon as they run.
        let probed = !init && self.template.spec.containers.first().is_some_and(|ray| ray.name == container.name);
        let ready = *since + if probed { self.world.pace.start / 2 } else { Duration::ZERO };
        life.ready = self.now.timer >= ready && (!init || is_sidecar(container));
        if self.now.timer < ready {
            self.wake(ready);
        }
    }

    fn end(&mut self, life: &mut Life, end: Termination) {
        life.phase = Phase::Ended { at: self.now.timer, end: Box::new(end) };
        life.ready = false;
    }

    fn termination(&self, reason: &str, message: String, exit_code: i32, started: Timestamp) -> Termination {
        Termination {
            reason: reason.to_owned(),
            message,
            exit_code,
            started: Some(started),
            finished: Some(self.now.wall),
        }
    }

    fn crash_loop(&self, container: &Container, delay: Duration) -> Why {
        let NodeFact { namespace, name, uid, .. } = self.pod;
        let (delay, container) = (written(delay), &container.name);
        let message = format!("back-off {delay} restarting failed container={container} pod={name}_{namespace}({uid})");
        Why { reason: "CrashLoopBackOff".to_owned(), message: bounded(message), since: None }
    }

    /// `startContainer` of the kubelet: image, configuration, start. Every failure leaves a reason on the container.
    fn start(&mut self, container: &Container, init: bool, life: &mut Life) {
        if let Err((reason, message, retry)) = self.pull(container, life) {
            return self.refuse(life, reason, message, retry);
        }
        if let Err(message) = self.world.objects.check_environment(&self.pod.namespace, container) {
            return self.refuse(life, "CreateContainerConfigError", message, None);
        }
        if let Phase::Ended { at, end } = std::mem::take(&mut life.phase) {
            life.crashes.next(self.world.pace, at, self.now.timer);
            life.last = Some(end);
        }
        life.starts = life.starts.saturating_add(1);
        (life.why, life.not_before) = (None, None);
        let run = if init && container.name == WAIT { wait(container) } else { run(container, init) };
        if let Run::Refused(message) = run {
            // containerd reports a start that failed as an exit 128 at the epoch.
            let end = self.termination("StartError", bounded(message.clone()), 128, Timestamp::UNIX_EPOCH);
            self.end(life, end);
            return self.refuse(life, "RunContainerError", message, Some(Duration::from_secs(2)));
        }
        life.phase = Phase::Running { since: self.now.timer, started: self.now.wall, run };
        self.watch(container, init, life);
    }

    fn refuse(&mut self, life: &mut Life, reason: &str, message: String, retry: Option<Duration>) {
        life.why = Some(Why { reason: reason.to_owned(), message: bounded(message), since: None });
        if let Some(retry) = retry {
            let not_before = self.after(retry);
            life.not_before = Some(not_before);
            self.wake(not_before);
        }
    }

    /// `EnsureImageExists` of the kubelet's image manager: reason, message, and when to try again where that may help.
    /// Nothing was ever loaded into a machine by hand: with the policy `Never` there is no image.
    fn pull(&self, container: &Container, life: &mut Life) -> Result<(), (&'static str, String, Option<Duration>)> {
        let image = container.image.as_deref().unwrap_or_default();
        let reference = Reference::parse(image).map_err(|error| {
            let message = format!(
                "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": {error}"
            );
            ("InvalidImageName", message, None)
        })?;
        if container.image_pull_policy.as_deref() == Some("Never") {
            let message = format!("Container image \"{image}\" is not present with pull policy of Never");
            return Err(("ErrImageNeverPull", message, None));
        }
        let (pace, now) = (self.world.pace, self.now.timer);
        if life.pulls.last.is_some_and(|last| life.pulls.until(pace, last, now).is_some()) {
            let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {}", life.pull_error);
            return Err(("ImagePullBackOff", message, Some(SYNC)));
        }
        let logged_in = self.world.objects.has_pull_secret(&self.template.spec);
        reference.pull(image, &self.world.images, logged_in).map_err(|error| {
            life.pulls.next(pace, now, now);
            life.pull_error.clone_from(&error);
            ("ErrImagePull", error, Some(Duration::from_secs(2)))
        })
    }
}

/// Waiting for the head takes a shell; whatever else it needs is there.
fn wait(container: &Container) -> Run {
    match run(container, true) {
        refused @ Run::Refused(_) => refused,
        Run::Forever | Run::Ends(_) => Run::Forever,
    }
}

/// containerd's reason of an exit.
fn reason(exit_code: i32) -> &'static str {
    if exit_code == 0 { "Completed" } else { "Error" }
}

/// The end of a log, as much as a kubelet takes: 80 lines and 2048 bytes.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.split_inclusive('\n').collect();
    let text = lines.get(lines.len().saturating_sub(80)..).unwrap_or_default().concat();
    let start = text.ceil_char_boundary(text.len().saturating_sub(TEXT_LIMIT));
    text.get(start..).unwrap_or_default().to_owned()
}
