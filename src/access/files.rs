//! The token file and the policy file, read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::time::{sleep, timeout};

use super::{Access, Policy, StaticTokens};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 8 << 20;

/// How long reading a file may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Which of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// Who is who.
    Tokens,
    /// Who may do what.
    Policy,
}

impl Which {
    /// Its name, for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Policy => "policy",
        }
    }
}

/// A file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Which one.
    pub which: Which,
    /// Whether the rules in it hold now; else why they don't: those from before go on holding.
    pub result: Result<(), String>,
}

/// The two files that rule who may do what.
pub struct Files {
    tokens: File,
    policy: File,
    static_tokens: Arc<StaticTokens>,
    access: Arc<Access>,
}

struct File {
    path: PathBuf,
    /// What was read last, or why nothing could be; compared, so that a change is taken once.
    last: Result<Vec<u8>, String>,
}

impl Files {
    /// Reads both files and makes the rules of them, for these served namespaces (none: all) and this default namespace.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub async fn open(
        tokens: &Path,
        policy: &Path,
        served: Vec<String>,
        default_namespace: String,
    ) -> Result<Self, String> {
        let named = |path: &Path| {
            let path = path.display().to_string();
            move |wrong: String| format!("{path}: {wrong}")
        };
        let static_tokens = Arc::new(StaticTokens::default());
        let token_bytes = read(tokens).await.map_err(named(tokens))?;
        static_tokens.load(&token_bytes).map_err(named(tokens))?;
        let policy_bytes = read(policy).await.map_err(named(policy))?;
        let rules = Policy::read(&policy_bytes).map_err(named(policy))?;
        let access = Access::closed(served, default_namespace, vec![static_tokens.clone()], rules);
        Ok(Self {
            tokens: File { path: tokens.to_owned(), last: Ok(token_bytes) },
            policy: File { path: policy.to_owned(), last: Ok(policy_bytes) },
            static_tokens,
            access: Arc::new(access),
        })
    }

    /// The rules.
    #[must_use]
    pub fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access)
    }

    /// Looks at the files again and again, for ever, and tells what came of each change.
    ///
    /// A file is best replaced whole (`mv`, or the way Kubernetes replaces a mounted Secret). What can't be read or isn't
    /// right is told once, and changes nothing.
    pub async fn follow(mut self, every: Duration, tell: impl Fn(Reloaded)) {
        loop {
            sleep(every).await;
            if let Some(read) = self.tokens.changed().await {
                let result = read.and_then(|bytes| self.static_tokens.load(&bytes));
                if result.is_ok() {
                    self.access.announce();
                }
                tell(Reloaded { which: Which::Tokens, result });
            }
            if let Some(read) = self.policy.changed().await {
                let result = read.and_then(|bytes| Policy::read(&bytes));
                let result = result.map(|policy| self.access.replace_policy(policy));
                tell(Reloaded { which: Which::Policy, result });
            }
        }
    }
}

impl File {
    /// What is in the file now; `None` where that is what was there.
    async fn changed(&mut self) -> Option<Result<Vec<u8>, String>> {
        let now = read(&self.path).await;
        if now == self.last {
            return None;
        }
        self.last.clone_from(&now);
        Some(now)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let reading = async {
        let mut bytes = Vec::new();
        let file = tokio::fs::File::open(path).await?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).await?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = timeout(DEADLINE, reading).await.map_err(|_| "it can't be read in time".to_owned())?;
    let bytes = bytes.map_err(|error| format!("it can't be read: {error}"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    Ok(bytes)
}
