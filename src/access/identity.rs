//! Who somebody is, and who vouches for it.

use async_trait::async_trait;
use jiff::Timestamp;

/// The user of a service without authentication.
pub(super) const ANONYMOUS: &str = "anonymous";

/// The group of everybody who has said who they are.
pub(super) const AUTHENTICATED: &str = "authenticated";

/// Who somebody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Their name, as policies and owners have it.
    pub user: String,
    /// The groups that they are in.
    pub groups: Vec<String>,
    /// Which authenticator vouches for them.
    pub authenticator: &'static str,
    /// The name of the credential, which is no secret.
    pub credential: Option<String>,
    /// What proves that the credential is still the same one; no secret can be had from it.
    pub proof: Option<[u8; 32]>,
    /// Until when.
    pub expires: Option<Timestamp>,
}

impl Identity {
    /// Anybody, where nobody is asked.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            user: ANONYMOUS.into(),
            groups: Vec::new(),
            authenticator: "none",
            credential: None,
            proof: None,
            expires: None,
        }
    }
}

/// Why a credential isn't taken, though it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// It has expired; the name of the credential.
    Expired(String),
}

/// One way to find out whose a bearer token is.
#[async_trait]
pub trait Authenticator: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Whose token this is; `None` where it isn't one of this authenticator's.
    ///
    /// # Errors
    /// It is one, and may not be used.
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, Rejected>;

    /// The identity as it stands now; `None` where it isn't vouched for any more.
    fn renew(&self, identity: &Identity) -> Option<Identity>;
}
