//! The credential of a request: a bearer token in its header (RFC 6750, section 2.1), or in a WebSocket's subprotocol, as
//! kube-apiserver has it, since a page can set no header there.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};

use crate::operations::{ApiError, ErrorCode};

/// What a subprotocol that carries a token begins with; the token follows in base64url without padding
/// (`k8s.io/apiserver/pkg/authentication/request/websocket`).
const PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 8192;

/// A bearer token. It can't be printed.
pub(super) struct Token(String);

impl Token {
    /// The token itself.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Takes the credential out of a request's headers, so that nothing behind can tell it on.
///
/// # Errors
/// There is more than one, or it can't be one.
pub(super) fn take(headers: &mut HeaderMap) -> Result<Option<Token>, ApiError> {
    let mut tokens = Vec::new();
    for header in headers.get_all(AUTHORIZATION) {
        tokens.push(bearer(header));
    }
    headers.remove(AUTHORIZATION);
    let mut others = Vec::new();
    for header in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let protocols = header.to_str().unwrap_or_default().split(',').map(str::trim);
        for protocol in protocols.filter(|protocol| !protocol.is_empty()) {
            match protocol.strip_prefix(PROTOCOL) {
                Some(encoded) => tokens.push(BASE64_URL_SAFE_NO_PAD.decode(encoded).ok().and_then(text)),
                None => others.push(protocol.to_owned()),
            }
        }
    }
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(others) = HeaderValue::try_from(others.join(", "))
        && !others.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
    let mut tokens = tokens.into_iter();
    match (tokens.next(), tokens.next()) {
        (None, _) => Ok(None),
        (Some(Some(token)), None) if !token.is_empty() && token.len() <= LONGEST => Ok(Some(Token(token))),
        (Some(_), None) => Err(refused("This credential can't be read; it is a bearer token that is wanted.")),
        (Some(_), Some(_)) => Err(refused("There is more than one credential.")),
    }
}

/// The token of an `Authorization` header.
fn bearer(header: &HeaderValue) -> Option<String> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok()
}

fn refused(detail: &str) -> ApiError {
    ApiError::new(ErrorCode::Unauthenticated, detail)
        .hint("Send the header `Authorization: Bearer TOKEN`, once.")
        .rule("credential")
}
