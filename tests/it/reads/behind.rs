//! A replica that hasn't heard: a backend whose watch of clusters is held back, beside one that hears at once.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use raygate::access::Access;
use raygate::manager::faulty::{Call, Fault, Faults};
use raygate::manager::memory::{Options, backend};
use raygate::manager::{Backend, ManagerError};

use crate::support::{InProcess, Outcome};

/// The clusters of another backend, of which it tells nothing while it is told so.
pub(super) struct Behind {
    faults: Faults,
    /// How often one cluster, and how often a list, had been asked for.
    before: Mutex<(usize, usize)>,
}

impl Deref for Behind {
    type Target = Faults;

    fn deref(&self) -> &Faults {
        &self.faults
    }
}

impl Behind {
    /// From now on nothing is told of what changes.
    pub(super) fn hold(&self) {
        self.faults.hold_watches(true);
    }

    /// From now on it is told, and so is what was held back.
    pub(super) fn release(&self) {
        self.faults.hold_watches(false);
    }

    /// From now on reads fail.
    pub(super) fn fail(&self) {
        for call in [Call::Get, Call::List] {
            self.faults.add(call, usize::MAX, Fault::Instead(ManagerError::Unavailable("as was said".into())));
        }
    }

    /// How often one cluster, and how often a list, was asked for since this was asked.
    pub(super) fn asked(&self) -> (usize, usize) {
        let now = (self.faults.asked(Call::Get), self.faults.asked(Call::List));
        let before = std::mem::replace(&mut *self.before.lock().unwrap_or_else(PoisonError::into_inner), now);
        (now.0 - before.0, now.1 - before.1)
    }
}

/// Two replicas over one backend.
pub(super) struct Replicas {
    /// It hears at once.
    pub(super) near: InProcess,
    /// It hears when `behind` lets it.
    pub(super) far: InProcess,
    pub(super) behind: Behind,
}

impl Replicas {
    /// Both serve by the same rules; the far one with these flags.
    pub(super) async fn start(access: impl Fn() -> Outcome<Access>, flags: &[&str]) -> Outcome<Self> {
        let namespaces = vec!["default".to_owned(), "other".to_owned()];
        let inner = backend(Options { namespaces, ..Options::default() });
        let (told, faults) = Faults::over(&inner);
        let behind = Behind { faults, before: Mutex::default() };
        let outer = Backend { clusters: told.clusters, workloads: inner.workloads.clone() };
        let near = InProcess::start(&inner, access()?, &[]).await?;
        let far = InProcess::start(&outer, access()?, flags).await?;
        Ok(Self { near, far, behind })
    }

    /// Both serve everybody.
    pub(super) async fn open(flags: &[&str]) -> Outcome<Self> {
        Self::start(|| Ok(Access::open(Vec::new(), "default".into())), flags).await
    }

    /// Ends both in order.
    pub(super) async fn end(self) -> Outcome {
        self.behind.release();
        self.near.end().await?;
        self.far.end().await
    }
}
