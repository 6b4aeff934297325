//! Bodies that are made to cost: each is refused, soon, and what it cost is given back.

use std::time::Duration;

use http::Method;
use tokio::time::timeout;

use super::{UNLIMITED, held, owned, resident, start};
use crate::support::{Guarded, Outcome};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// What each answer may take on a loaded machine. Without bounds these bodies take minutes.
const SOON: Duration = Duration::from_secs(30);

fn json_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: String| text.into_bytes();
    let twice = (0..50_000).fold(String::from("{\"name\": \"x\""), |text, _| text + ", \"head\": {}") + "}";
    let utf16 = r#"{"name": "x"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = format!(
        "{{\"labels\": {{{}}}, \"x\": 1}}",
        (0..40_000).map(|at| format!("\"k{at}\": 1")).collect::<Vec<_>>().join(",")
    );
    vec![
        ("open brackets", text("[".repeat(100_000))),
        ("nested lists", text("[".repeat(100_000) + &"]".repeat(100_000))),
        ("nested objects", text("{\"head\":".repeat(100_000) + "1" + &"}".repeat(100_000))),
        ("nested in a known member", text(format!("{{\"head\":{{\"podTemplate\":{}", "{\"a\":".repeat(100_000)))),
        ("a number beyond all", text(r#"{"head": {"cpu": 1e400}}"#.into())),
        ("a number far beyond all", text(r#"{"head": {"cpu": 1e999999999999}}"#.into())),
        ("400 digits", text(format!("{{\"head\": {{\"cpu\": 1{}}}}}", "0".repeat(400)))),
        ("half a million digits", text(format!("{{\"head\": {{\"cpu\": {}}}}}", "9".repeat(500_000)))),
        ("digits as replicas", text(format!("{{\"workerGroups\": {{\"w\": {{\"replicas\": {}}}}}}}", "9".repeat(400)))),
        ("digits in a text", text(format!("{{\"head\": {{\"cpu\": \"{}\"}}}}", "9".repeat(500_000)))),
        ("an exponent in a text", text(r#"{"head": {"cpu": "1e1000000000"}}"#.into())),
        ("one key again and again", text(twice)),
        ("many members", text(wide)),
        ("a name of 1 MiB", text(format!("{{\"name\": \"{}\"}}", "a".repeat((1 << 20) - 20)))),
        ("a key of 1 MiB", text(format!("{{\"{}\": 1}}", "a".repeat((1 << 20) - 20)))),
        ("backslashes", text(format!("{{\"name\": \"{}\"}}", "\\\\".repeat(500_000)))),
        ("NUL", b"{\"name\": \"a\0b\"}".to_vec()),
        ("NUL behind", b"{\"name\": \"x\"}\0".to_vec()),
        ("NUL in an escape", text(r#"{"name": "a\u0000b"}"#.into())),
        ("NUL in a label", text(r#"{"labels": {"a": "\u0000"}}"#.into())),
        ("half a surrogate", text(r#"{"labels": {"a": "\ud800"}}"#.into())),
        ("surrogates the wrong way round", text(r#"{"labels": {"a": "\udc00\ud800"}}"#.into())),
        ("half a surrogate as a key", text(r#"{"\ud800": "a"}"#.into())),
        ("no UTF-8", b"{\"name\": \"\xff\xfe\"}".to_vec()),
        ("UTF-8 that is too long", b"{\"name\": \"\xc0\xae\"}".to_vec()),
        ("a surrogate in UTF-8", b"{\"name\": \"\xed\xa0\x80\"}".to_vec()),
        ("UTF-16", utf16),
        ("a mark before an unknown member", b"\xef\xbb\xbf{\"nonsense\": 1}".to_vec()),
        ("words that JSON hasn't", text(r#"{"head": {"cpu": NaN}}"#.into())),
        ("a comment", text(r#"{"name": "x" /* y */}"#.into())),
        ("a prototype", text(r#"{"__proto__": {"owner": "alice"}}"#.into())),
        ("control characters", (1..32).collect()),
    ]
}

fn yaml_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let laughs = |width: usize, depth: usize| {
        let levels = (1..depth).map(|level| {
            let names = vec![format!("*a{}", level - 1); width].join(", ");
            format!("a{level}: &a{level} [{names}]\n")
        });
        format!("a0: &a0 [{}]\n{}", vec!["lol"; width].join(", "), levels.collect::<String>())
    };
    let quadratic = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 50_000].join(", "), vec!["*a"; 50_000].join(", "));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(200_000), vec!["*a"; 50_000].join(", "));
    let merges = (1..2000).fold(String::from("a0: &a0 {x: 1}\n"), |text, at| {
        text + &format!("a{at}: &a{at} {{<<: [*a{}, *a{}], k{at}: 1}}\n", at - 1, at / 2)
    });
    let text = |text: String| text.into_bytes();
    vec![
        ("a billion laughs", text(laughs(10, 10))),
        ("laughs in breadth", text(laughs(400, 4))),
        ("laughs in depth", text(laughs(2, 200))),
        ("a long list again and again", text(quadratic)),
        ("a long text again and again", text(long)),
        ("merges of merges", text(merges)),
        ("an alias of itself", text("a: &a [*a]\n".into())),
        ("an alias of its own mapping", text("&a {b: *a}\n".into())),
        ("an alias of nothing", text("a: *b\n".into())),
        ("nested lists", text("- ".repeat(100_000))),
        ("nested flow", text("[".repeat(100_000))),
        ("nested flow that ends", text("[".repeat(100_000) + &"]".repeat(100_000))),
        ("nested mappings", text((0..1000).fold(String::new(), |text, at| text + &" ".repeat(at) + "a:\n"))),
        ("questions", text("? ".repeat(100_000))),
        ("many documents", text("---\n{}\n".repeat(100_000))),
        ("many anchors", text((0..50_000).fold(String::new(), |text, at| text + &format!("k{at}: &k{at} 1\n")))),
        ("a tag of a language", text("!!python/object/apply:os.system [id]\n".into())),
        ("a tag of another", text("name: !ruby/object:Gem::Installer {}\n".into())),
        ("a binary", text(format!("name: !!binary {}\n", "A".repeat(1_000_000)))),
        ("half a million digits", text(format!("head: {{cpu: {}}}\n", "9".repeat(500_000)))),
        ("an endless number", text("head: {cpu: .inf}\n".into())),
        ("a name of 1 MiB", text(format!("name: {}\n", "a".repeat((1 << 20) - 20)))),
        ("a scalar that never ends", text(format!("name: \"{}", "a".repeat(1_000_000)))),
        ("indentation", text(format!("a:\n{}b: 1\n", " ".repeat(1_000_000)))),
        ("tabs", text("\t".repeat(1_000_000))),
        ("NUL", b"name: a\0b\n".to_vec()),
        ("NUL in an escape", text("name: \"a\\0b\"\n".into())),
        ("half a surrogate", text("labels: {a: \"\\ud800\"}\n".into())),
        ("no UTF-8", b"name: \xff\xfe\n".to_vec()),
        ("one key twice", text("nonsense: 1\nnonsense: 2\n".into())),
        ("a mark before an unknown member", b"\xef\xbb\xbfnonsense: 1\n".to_vec()),
        ("directives", text("%YAML 1.1\n".repeat(50_000) + "---\nname: x\n")),
    ]
}

/// Sends each of the bodies by each way, and checks that each is refused soon.
async fn are_refused(guarded: &Guarded, media_type: &str, bodies: &[(&str, Vec<u8>)]) -> Outcome {
    for (what, body) in bodies {
        for (user, method, path) in [
            ("alice", Method::POST, "/clusters"),
            ("alice", Method::PUT, "/clusters/fresh"),
            ("alice", Method::PUT, "/clusters/mine"),
            ("alice", Method::PATCH, "/clusters/mine"),
            ("olga", Method::POST, "/clusters/mine.default/owner"),
        ] {
            let bearer = guarded.bearer(user);
            let mut headers = vec![("authorization", bearer.as_str()), ("content-type", media_type)];
            if path.ends_with("/mine") {
                headers.push(("if-match", "*"));
            }
            let answer = timeout(SOON, guarded.send(method.clone(), path, &headers, body.clone())).await;
            let answer = answer.map_err(|_| format!("{what}, {method} {path}: not within {SOON:?}"))??;
            assert!([400, 422].contains(&answer.status.as_u16()), "{what}, {method} {path}: {answer:?}");
            assert!(answer.body.len() < 4 << 20, "{what}, {method} {path}: {} bytes", answer.body.len());
        }
    }
    Ok(())
}

async fn cost_nothing(media_type: &str, bodies: &[(&str, Vec<u8>)]) -> Outcome {
    let guarded = start(&UNLIMITED).await?;
    super::create(&guarded, "alice", "mine", "default").await?;
    let before = (resident(guarded.id()?)?, owned(&held(&guarded, "mine.default").await?));
    are_refused(&guarded, media_type, bodies).await?;
    let after = (resident(guarded.id()?)?, owned(&held(&guarded, "mine.default").await?));
    assert!(after.0 < before.0 + 200_000, "from {} to {} KB", before.0, after.0);
    assert_eq!(after.1, before.1);
    let list = guarded.ask("adam", Method::GET, "/clusters?namespace=*", "").await?.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "nothing else is stored");
    Ok(())
}

#[tokio::test]
async fn json_that_is_made_to_cost() -> Outcome {
    cost_nothing(JSON, &json_bodies()).await
}

#[tokio::test]
async fn yaml_that_is_made_to_cost() -> Outcome {
    cost_nothing(YAML, &yaml_bodies()).await
}
