//! Static tokens: a file of their hashes.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_path_to_error::Segment;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::identity::{ANONYMOUS, AUTHENTICATED, Authenticator, Identity, Rejected};
use crate::clock;
use crate::ray::revision::hex;
use crate::ray::{owner, yaml};

/// What tokens begin with, so that a scanner for leaked secrets knows them.
const PREFIX: &str = "raygate_";

/// What hashes begin with: how they were made.
const HASH: &str = "sha256:";

/// The name of the authenticator.
const NAME: &str = "token";

/// The members of a line.
const MEMBERS: [&str; 6] = ["id", "user", "groups", "hash", "expireTime", "note"];

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    /// The token's name, which is no secret: logs have it.
    id: String,
    user: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// `sha256:` and the token's SHA-256 in hexadecimal.
    hash: String,
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    expire_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A time that is there must be one: an empty one would make a token that is valid for ever.
fn said<'de, D: Deserializer<'de>>(time: D) -> Result<Option<Timestamp>, D::Error> {
    Timestamp::deserialize(time).map(Some)
}

/// The tokens of a file. Only their hashes are held: whoever reads the file can't use them.
#[derive(Default)]
pub struct StaticTokens {
    known: RwLock<Arc<Vec<Identity>>>,
}

impl StaticTokens {
    /// Reads a file: a list, one token an item, as `raygate token new` writes them.
    ///
    /// # Errors
    /// A sentence that says what is wrong, and where. What was there before stays.
    pub fn load(&self, bytes: &[u8]) -> Result<(), String> {
        let known = read(bytes)?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        Ok(())
    }

    fn known(&self) -> Arc<Vec<Identity>> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Authenticator for StaticTokens {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, Rejected> {
        let hash = Sha256::digest(token);
        // Every one is compared, and in constant time: how long it takes tells nothing.
        let mut found = None;
        let known = self.known();
        for one in known.iter() {
            if one.proof.is_some_and(|proof| proof.ct_eq(hash.as_slice()).into()) {
                found = Some(one);
            }
        }
        match found {
            Some(identity) if identity.expires.is_some_and(|expires| expires <= clock::now()) => {
                Err(Rejected::Expired(identity.credential.clone().unwrap_or_default()))
            }
            found => Ok(found.cloned()),
        }
    }

    fn renew(&self, identity: &Identity) -> Option<Identity> {
        let known = self.known();
        let same = known.iter().find(|one| one.credential == identity.credential)?;
        let stands = same.user == identity.user && same.proof == identity.proof;
        let valid = same.expires.is_none_or(|expires| expires > clock::now());
        (stands && valid).then(|| same.clone())
    }
}

fn read(bytes: &[u8]) -> Result<Vec<Identity>, String> {
    if is_blank(bytes) {
        return Ok(Vec::new());
    }
    // Nothing that stands in the file is quoted: a token in the wrong place must not reach a log.
    let read = yaml::read(bytes).map_err(|faults| {
        let place = faults.0.first().and_then(|fault| Some(fault.message.rsplit_once(" (line ")?.1.to_owned()));
        format!("this is not YAML that can be read{}", place.map(|place| format!(" (line {place}")).unwrap_or_default())
    })?;
    if !read.twice.0.is_empty() {
        return Err("a member is there more than once".to_owned());
    }
    let stored: Vec<Stored> = serde_path_to_error::deserialize(read.value).map_err(|error| {
        let index = error.path().iter().find_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("[{index}]: ")),
            Segment::Map { .. } | Segment::Enum { .. } | Segment::Unknown => None,
        });
        let path = error.path().to_string();
        let member = MEMBERS.iter().find(|member| path.ends_with(&format!("].{member}")));
        let inner = error.inner().to_string();
        let missing = MEMBERS.iter().find(|member| inner.starts_with(&format!("missing field `{member}`")));
        let what = match (missing, member) {
            (Some(member), _) => format!("`{member}` is missing"),
            (None, Some(member)) => format!("{member}: this isn't what belongs here"),
            (None, None) => format!("this takes a list of objects, each with {}", MEMBERS.join(", ")),
        };
        index.unwrap_or_default() + &what
    })?;
    let (mut ids, mut hashes) = (HashSet::new(), HashSet::new());
    let mut known = Vec::new();
    for (index, one) in stored.into_iter().enumerate() {
        let wrong = |what: &str| Err(format!("[{index}]: {what}"));
        let Some(hash) = one.hash.strip_prefix(HASH).and_then(decode) else {
            return wrong("hash: this takes `sha256:` and 64 hexadecimal digits");
        };
        if !is_word(&one.id) {
            return wrong("id: this takes 1 to 63 letters, digits, `-`, `_` and `.`");
        }
        if !owner::is_name(&one.user) || one.user == ANONYMOUS {
            return wrong("user: nobody can be called this");
        }
        if one.groups.iter().any(|group| !owner::is_name(group) || group == AUTHENTICATED) {
            return wrong("groups: a group can't be called this; everybody is in `authenticated`");
        }
        if !ids.insert(one.id.clone()) {
            return wrong("id: this one is there already");
        }
        if !hashes.insert(hash) {
            return wrong("hash: this one is there already");
        }
        known.push(Identity {
            user: one.user,
            groups: one.groups,
            authenticator: NAME,
            credential: Some(one.id),
            proof: Some(hash),
            expires: one.expire_time,
        });
    }
    Ok(known)
}

/// Whether there is nothing in a file but comments: no token.
fn is_blank(bytes: &[u8]) -> bool {
    let lines = std::str::from_utf8(bytes).map(|text| text.lines().map(str::trim));
    lines.is_ok_and(|mut lines| lines.all(|line| line.is_empty() || line.starts_with('#')))
}

fn is_word(id: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=63).contains(&id.len()) && id.bytes().all(inside)
}

fn decode(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    // `from_str_radix` takes a sign.
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(hash)
}

/// A token as it is made: the secret, and the line that is stored.
#[derive(Debug)]
pub struct NewToken {
    /// What its user sends; it is stored nowhere.
    pub token: String,
    /// The line for the file.
    pub line: String,
}

impl NewToken {
    /// Makes a token of 256 random bits for a user. `days` is how long it is valid, 0 for ever.
    ///
    /// # Errors
    /// A sentence about a name that can't be.
    pub fn make(user: &str, groups: &[String], days: u16, note: Option<&str>) -> Result<Self, String> {
        let secret: [u8; 32] = rand::random();
        let token = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
        let hash = hex(&Sha256::digest(&token));
        let expire_time = (days > 0).then(|| {
            let valid = SignedDuration::from_hours(24 * i64::from(days));
            let until = clock::now().saturating_add(valid).unwrap_or(Timestamp::MAX);
            Timestamp::from_second(until.as_second()).unwrap_or(until)
        });
        let stored = Stored {
            id: hex(&rand::random::<[u8; 4]>()),
            user: user.to_owned(),
            groups: groups.to_vec(),
            hash: format!("{HASH}{hash}"),
            expire_time,
            note: note.map(str::to_owned),
        };
        // JSON is YAML; what can be written can be read.
        let line = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
        let line = format!("- {line}");
        read(line.as_bytes())?;
        Ok(Self { token, line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(lines: &[&str]) -> StaticTokens {
        let tokens = StaticTokens::default();
        tokens.load(lines.join("\n").as_bytes()).unwrap();
        tokens
    }

    #[tokio::test]
    async fn a_new_token_is_its_users() {
        let groups = ["research".to_owned(), "ml ops".to_owned()];
        let alice = NewToken::make("alice", &groups, 30, Some("her laptop: \"blue\", # 7")).unwrap();
        let bob = NewToken::make("bob@example.org", &[], 0, None).unwrap();
        assert_ne!(alice.token, bob.token);
        assert!(!alice.line.contains(&alice.token) && !alice.line.contains('\n'), "{}", alice.line);
        let tokens = store(&[&alice.line, "# a comment", &bob.line]);
        let identity = tokens.authenticate(&alice.token).await.unwrap().unwrap();
        assert_eq!((identity.user.as_str(), identity.groups.as_slice()), ("alice", &groups[..]));
        let days = identity.expires.unwrap().duration_since(clock::now()).as_hours() / 24;
        assert!((29..=30).contains(&days), "{days}");
        let identity = tokens.authenticate(&bob.token).await.unwrap().unwrap();
        assert_eq!((identity.user.as_str(), identity.expires), ("bob@example.org", None));
        let hash = alice.line.split("sha256:").nth(1).unwrap().split('"').next().unwrap();
        for other in ["", "x", hash, &format!("sha256:{hash}"), &alice.token[1..], &format!("{} ", alice.token)] {
            assert_eq!(tokens.authenticate(other).await, Ok(None), "{other}");
        }
    }

    /// `printf secret | sha256sum`
    const SECRET: &str = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[tokio::test]
    async fn any_secret_does_whose_hash_is_there() {
        let line = format!("- {{id: a, user: carol, hash: \"{SECRET}\"}}");
        assert_eq!(store(&[&line]).authenticate("secret").await.unwrap().unwrap().user, "carol");
    }

    #[tokio::test]
    async fn what_has_expired_is_told_apart_from_what_was_never_there() {
        let line = format!("- {{id: a, user: carol, hash: \"{SECRET}\", expireTime: 2020-01-01T00:00:00Z}}");
        assert_eq!(store(&[&line]).authenticate("secret").await, Err(Rejected::Expired("a".into())));
    }

    #[tokio::test]
    async fn an_identity_stands_while_its_line_does() {
        let line = format!("- {{id: a, user: carol, hash: \"{SECRET}\"}}");
        let tokens = store(&[&line]);
        let identity = tokens.authenticate("secret").await.unwrap().unwrap();
        assert_eq!(tokens.renew(&identity), Some(identity.clone()));
        tokens.load(line.replace("user", "groups: [g], user").as_bytes()).unwrap();
        assert_eq!(tokens.renew(&identity).unwrap().groups, ["g"], "groups are those of now");
        let other = SECRET.replace("2bb8", "2bb9");
        for changed in [
            "[]".to_owned(),
            "# nobody\n".to_owned(),
            String::new(),
            line.replace("carol", "dave"),
            line.replace(SECRET, &other),
            line.replace("id: a", "id: b"),
            line.replace("user", "expireTime: 2020-01-01T00:00:00Z, user"),
        ] {
            tokens.load(changed.as_bytes()).unwrap();
            assert_eq!(tokens.renew(&identity), None, "{changed}");
        }
    }

    #[test]
    fn files_that_are_not_right_are_refused_whole_and_quote_no_secret() {
        let good = format!("- {{id: a, user: carol, hash: \"{SECRET}\"}}");
        let tokens = store(&[&good]);
        for (text, word) in [
            ("{}", ""),
            ("- {id: b, user: d}", "hash"),
            ("- {id: b, user: d, hash: hunter22}", "hash"),
            ("- {id: b, user: d, hash: [hunter22]}", "hash"),
            ("- hunter22", ""),
            ("- {id: b, user: d, hash: \"sha256:hunter22\"}", "hash"),
            ("- {id: hunter22, user: d}", "hash"),
            ("- {id: \"b c\", user: d, hash: HASH}", "id"),
            ("- {id: b, user: \" d\", hash: HASH}", "user"),
            ("- {id: b, user: anonymous, hash: HASH}", "user"),
            ("- {id: b, user: d, groups: [authenticated], hash: HASH}", "groups"),
            ("- {id: b, user: d, hash: HASH, token: hunter22}", "expireTime"),
            ("- {id: b, user: d, hash: HASH, hunter22: x}", "[0]"),
            ("- {hunter22: {hunter22: x}}", "[0]"),
            ("- {id: b, user: d, hash: HASH, hunter22: x, hunter22: x}", "more than once"),
            ("- hunter22: *hunter22", "line 1"),
            ("hunter22", "list"),
            ("- {id: b, user: me, hash: HASH}", "user"),
            ("- {id: b, user: d, hash: HASH, expireTime: }", "expireTime"),
            ("- {id: b, user: d, hash: HASH, expireTime: hunter22}", "expireTime"),
            ("- {id: b, user: d, hash: HASH}\n- {id: b, user: e, hash: OTHER}", "id"),
            ("- {id: b, user: d, hash: HASH}\n- {id: c, user: e, hash: HASH}", "hash"),
            ("- {id: b, id: c, user: d, hash: HASH}", "more than once"),
        ] {
            let text = text.replace("HASH", SECRET).replace("OTHER", &SECRET.replace("2bb8", "2bb9"));
            let why = tokens.load(text.as_bytes()).unwrap_err();
            assert!(why.contains(word) && !why.contains("hunter22"), "{text}: {why}");
        }
        assert_eq!(tokens.known().len(), 1, "what was there stays");
    }

    #[test]
    fn names_that_cannot_be_make_no_token() {
        for user in ["", " a", "a\nb", "anonymous"] {
            assert!(NewToken::make(user, &[], 1, None).is_err(), "{user:?}");
        }
        assert!(NewToken::make("a", &["authenticated".into()], 1, None).is_err());
    }
}
