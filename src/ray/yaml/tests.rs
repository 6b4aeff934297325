//! The reader held to kubectl's, and what both it and the writer do, by example.

use serde_json::{Value, json};

use super::build::Budget;
use super::*;

fn value(text: &str) -> Value {
    read(text.as_bytes()).unwrap_or_else(|faults| panic!("{text:?}: {faults:?}")).value
}

/// What is said of a text that can't be read: always one syntax fault of the whole.
fn refusal(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let shown = String::from_utf8_lossy(bytes.get(..80).unwrap_or(bytes)).into_owned();
    let mut faults = read(bytes).map(|yaml| yaml.value).expect_err(&shown).0;
    let fault = faults.pop().unwrap();
    assert_eq!((faults.len(), fault.pointer.as_str(), fault.code), (0, "", FaultCode::Syntax), "{shown}");
    fault.message
}

/// Equal as kubectl has it, which has no number with a fraction of zero.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| alike(value, other)))
        }
        _ => one == other,
    }
}

#[test]
fn what_is_read_is_what_kubectl_reads() {
    let table = include_str!("kubectl.tsv").lines().filter(|line| !line.starts_with('#'));
    let mut rows = 0;
    for row in table {
        let columns: Vec<&str> = row.split('\t').collect();
        let (text, answer) = match columns[..] {
            [text, kubectl] => (text, kubectl),
            [text, kubectl, here, reason] => {
                assert!(here != kubectl && !reason.is_empty(), "{row}");
                (text, here)
            }
            _ => panic!("{row}"),
        };
        let text: String = serde_json::from_str(text).unwrap();
        match (read(text.as_bytes()), answer) {
            (Err(_), "!") => (),
            (Ok(yaml), answer) if answer != "!" => {
                let answer = serde_json::from_str(answer).unwrap();
                assert!(alike(&yaml.value, &answer), "{row}: {}", yaml.value);
            }
            (result, _) => panic!("{row}: {result:?}"),
        }
        rows += 1;
    }
    assert!(rows > 1000, "{rows}");
}

#[test]
fn numbers_keep_their_kind() {
    assert!(value("0640").is_i64() && value("18446744073709551615").is_u64() && value("-1").is_i64());
    assert!(value("1.0").is_f64() && value("1e3").is_f64() && value("18446744073709551616").is_f64());
}

#[test]
fn keys_keep_their_order() {
    let keys = |text: &str| value(text).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys("z: 1\na: 2\n10: 3\nm: 4\na: 5\n"), ["z", "a", "10", "m"]);
    assert_eq!(keys("z: 1\n<<: {w: 1, b: 2}\na: 3\nb: 4\n"), ["z", "w", "b", "a"]);
}

#[test]
fn a_key_of_its_own_wins_over_a_merged_one_wherever_it_stands() {
    for text in ["a: 1\n<<: {a: 2, b: 2}\n", "<<: {a: 2, b: 2}\na: 1\n", "<<: [{b: 2}, {a: 2, b: 3}]\na: 1\n"] {
        let yaml = read(text.as_bytes()).unwrap();
        assert_eq!((yaml.value, yaml.twice.0), (json!({"a": 1, "b": 2}), vec![]), "{text}");
    }
    let twice = read(b"<<: {a: 2}\na: 1\na: 3\n").unwrap().twice.0;
    assert_eq!(twice.iter().map(|fault| fault.pointer.as_str()).collect::<Vec<_>>(), ["/a"]);
}

#[test]
fn each_key_that_is_there_twice_is_named_with_its_place() {
    let mut yaml = read(b"a: 1\nl:\n- x/y: 1\n  x/y: &x {k: 1, k: 2}\n1: *x\n'a': 2\n\"1\": 3\na: 4\n").unwrap();
    let found: Vec<_> = yaml.twice.0.iter().map(|fault| (fault.pointer.as_str(), fault.code)).collect();
    let twice = FaultCode::DuplicateKey;
    assert_eq!(
        found,
        [("/l/0/x~1y/k", twice), ("/l/0/x~1y", twice), ("/a", twice), ("/1", twice), ("/a", twice)],
        "what an alias copies is told once"
    );
    assert_eq!(yaml.value, json!({"a": 4, "l": [{"x/y": {"k": 2}}], "1": 3}));
    yaml.places.explain(&mut yaml.twice);
    assert_eq!(yaml.twice.0[1].message, "`x/y` is here more than once (line 4, column 3).");
    assert_eq!(yaml.twice.0[3].message, "`1` is here more than once (line 7, column 1).");
}

fn explained(text: &str, pointer: &str, code: FaultCode, message: &str) -> String {
    let mut faults = Fault::new(pointer, code, message).into();
    read(text.as_bytes()).unwrap().places.explain(&mut faults);
    faults.0.remove(0).message
}

#[test]
fn faults_say_where_they_stand() {
    let text = "\u{feff}# c\r\nname: a\r\nworkers:\r\n- name: b\r\n  \"a/b~\": {c: [1, é, 3]}\r\n- *x\r\n"
        .replace("name: b", "name: &x b");
    let place = |pointer| explained(&text, pointer, FaultCode::Required, "x.");
    for (pointer, expected) in [
        ("", "x (line 2, column 1)."),
        ("/name", "x (line 2, column 1)."),
        ("/workers", "x (line 3, column 1)."),
        ("/workers/0", "x (line 4, column 3)."),
        ("/workers/0/a~1b~0", "x (line 5, column 3)."),
        ("/workers/0/a~1b~0/c/2", "x (line 5, column 22)."),
        ("/workers/1", "x (line 6, column 3)."),
        ("/workers/0/missing/below", "x (line 4, column 3)."),
        ("/workers/7", "x (line 3, column 1)."),
        ("/workers/x", "x (line 3, column 1)."),
        ("/missing", "x (line 2, column 1)."),
        ("?name", "x (line 2, column 1)."),
    ] {
        assert_eq!(place(pointer), expected, "{pointer}");
    }
    let merged = "x: &x {a: {b: 1}}\nw: *x\nz:\n  <<: *x\n";
    for (pointer, expected) in [("/w/a/b", "(line 2, column 1)"), ("/z/a/b", "(line 4, column 3)")] {
        assert!(explained(merged, pointer, FaultCode::Required, "x.").contains(expected), "{pointer}");
    }
    assert_eq!(explained("a: 1", "/a", FaultCode::Required, "Or `b`?"), "Or `b`? (line 1, column 1)");
}

#[test]
fn a_word_that_is_no_string_is_advised_to_be_quoted() {
    let said = |text: &str, code| explained(text, "/a", code, "This takes a string.");
    for (word, means) in [
        ("yes", "true"),
        ("Off", "false"),
        ("0640", "a number"),
        ("2.50", "a number"),
        ("null", "null"),
        ("~", "null"),
        ("1_000", "a number"),
        ("0x1F", "a number"),
        ("1e3", "a number"),
    ] {
        let advice = format!(" YAML reads {word} as {means}; for a string, write \"{word}\".");
        for text in [format!("a: {word}"), format!("b: &x {word}\na: *x")] {
            let message = said(&text, FaultCode::WrongType);
            assert!(message.starts_with("This takes a string (line ") && message.ends_with(&advice), "{message}");
            assert!(!said(&text, FaultCode::OutOfRange).contains("quote"), "another fault needs no advice");
        }
    }
    for text in ["a: foo", "a: 'yes'", "a:", "a: [1]", "a: |\n 1", &format!("a: {}", "1".repeat(65))] {
        assert!(!said(text, FaultCode::WrongType).contains("YAML reads"), "{text}");
    }
    let below = explained("a: yes", "/a/b", FaultCode::WrongType, "This takes a string.");
    assert_eq!(below, "This takes a string (line 1, column 1).", "the word isn't what the fault is about");
}

#[test]
fn refusals_say_why_and_where() {
    for (text, part, place) in [
        ("a: b: c", "mapping values are not allowed", "(line 1, column 5)"),
        ("\u{feff}a: b: c", "mapping values are not allowed", "(line 1, column 5)"),
        ("é: [1\nb: 2", "", "(line "),
        ("a: 1\nb: 'x", "quote", "(line 2, column 4)"),
        ("a: 1\n\tb: 2", "tab", "(line 1, column 4)"),
        ("a:\n\tb: 2", "tab", "(line 2, column 2)"),
        ("- a\n-\tb", "tab", "(line 2, column 3)"),
        ("a: !!binary aGk=", "`!!binary`", "(line 1, column 4)"),
        ("a: !mine x", "`!mine`", "(line 1, column 4)"),
        ("a: !!int x", "`x` is not a whole number", "(line 1, column 10)"),
        ("a: 1\nb: .inf", "`.inf`", "(line 2, column 4)"),
        ("a: [.nan]", "`.nan`", "(line 1, column 5)"),
        ("~: 1", "null can't be a key", "(line 1, column 1)"),
        ("[a]: 1", "a key must be a string", "(line 1, column 1)"),
        ("a: 1\n? {b: 1}\n: c", "a key must be a string", "(line 2, column 3)"),
        ("a: &x [1, *x]", "`*x` stands inside of what it names", "(line 1, column 11)"),
        ("a: *x", "unknown anchor", "(line 1, column 4)"),
        ("a: 1\n<<: 2", "`<<` takes a map", "(line 2, column 5)"),
        ("x: &x [{a: 1}]\n<<: *x", "`<<` takes a map", "(line 2, column 5)"),
        ("a: b\n# c\u{85}d: e", "U+0085", "(line 2, column 4)"),
        ("a: b\u{2028}c", "U+2028", "(line 1, column 5)"),
        ("a: 1\nb: \0", "control characters", "(line 2, column 4)"),
        ("a: \u{7}", "control characters", "(line 1, column 4)"),
    ] {
        let message = refusal(text);
        assert!(message.contains(part) && message.contains(place), "{text:?}: {message}");
    }
    assert!(refusal(b"a: b\nc: \xff").contains("it is not UTF-8 (line 2, column 4)"));
    for (utf16, little) in [(true, true), (true, false), (false, true), (false, false)] {
        let mark = if utf16 { "\u{feff}a: 1" } else { "a: 1" };
        let bytes = mark.encode_utf16().flat_map(|c| if little { c.to_le_bytes() } else { c.to_be_bytes() });
        assert!(refusal(bytes.collect::<Vec<_>>()).contains("UTF-16"));
    }
}

#[test]
fn a_body_is_one_document() {
    for text in ["", " \n", "\u{feff}", "# c", "---", "---\n...\n", "---\n---\n# c\n", "%YAML 1.1\n---\n"] {
        assert_eq!(refusal(text), "The body is empty; a YAML document is needed.", "{text:?}");
    }
    for text in ["foo: 1", "---\nfoo: 1\n...\n", "---\nfoo: 1\n---\n", "---\n# c\n---\nfoo: 1\n---\n...\n---\n"] {
        assert_eq!(value(text), json!({"foo": 1}), "empty documents are skipped: {text:?}");
    }
    let three = refusal("a: 1\n---\n---\nb: 2\n--- c\n");
    assert_eq!(three, "This takes one document, here are 3. The second begins at line 4, column 1.");
    assert!(refusal("a: 1\n--- null\n").starts_with("This takes one document, here are 2."));
    assert!(refusal("a: 1\n---\nb: [\n").contains("(line 3, column 4)"), "what follows is read too");
    assert!(refusal("a: &x 1\n---\nb: *x\n").contains("unknown anchor"), "an anchor is of its document");
}

/// A line each for the numbers from 1.
fn lines(end: usize, line: impl Fn(usize) -> String) -> String {
    (1..end).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(value(&nested(127)), serde_json::from_str::<Value>(&nested(127)).unwrap());
    let mixed = |depth: usize| "- ".repeat(depth / 2) + &nested(depth - depth / 2);
    assert!(read(mixed(127).as_bytes()).is_ok());
    let through_alias =
        |depth: usize| format!("- &x {}\n- {}*x{}\n", nested(100), "[".repeat(depth), "]".repeat(depth));
    assert!(read(through_alias(26).as_bytes()).is_ok());
    // Each brings the one before it: as deep as there are lines, in nodes that hang on each other.
    let chain = lines(20_000, |n| format!("- &a{n} [*a{}]", n - 1));
    for text in [nested(128), mixed(128), through_alias(27), format!("- &a0 []\n{chain}")] {
        assert!(refusal(&text).contains("nested more than 127 deep"), "{text:.40}");
    }
    for start in ["[", "{", "{a: ", "- ", "? ", "[? ", "a: ", "!!seq [", "&a [", "<<: {", "|", "\"", "'a", "&a ", "*a "]
    {
        assert!(read(start.repeat(100_000).as_bytes()).is_err(), "{start}");
    }
}

#[test]
fn aliases_are_within_a_budget() {
    // Four values and five bytes of keys and scalars come by the alias.
    let text = "x: &x {ab: [c], d: e}\ny: *x\n";
    let within = |nodes, bytes| read_within(text.as_bytes(), &Budget { nodes, bytes, faults: 0 });
    let needed = |nodes, bytes| within(nodes, bytes).is_ok();
    let nodes = (0..100).find(|nodes| needed(*nodes, 1000)).unwrap();
    assert!((4..=8).contains(&nodes), "{nodes}: a map, a list, two scalars, two keys");
    assert_eq!((0..100).find(|bytes| needed(1000, *bytes)), Some(5));
    assert!(within(nodes - 1, 1000).unwrap_err().message.contains("aliases"));
    let free = read_within(b"x: {ab: [c], d: e}\n", &Budget { nodes: 0, bytes: 0, faults: 0 });
    assert!(free.is_ok(), "what is written out costs nothing");

    let nine = |name: &str| [name; 9].join(",");
    let laughs = lines(12, |n| format!("a{n}: &a{n} [{}]", nine(&format!("*a{}", n - 1))));
    let quadratic = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100_000].join(","));
    let merges = format!("x: &x {{a: 1}}\ny:\n- <<: [{}]\n", vec!["*x"; 100_000].join(","));
    let doubling = lines(40, |n| format!("a{n}: &a{n} {{<<: *a{}, b: *a{0}}}", n - 1));
    let keys = format!("? &k {}\n: 1\nl:\n{}", "k".repeat(1000), "- {*k : 1}\n".repeat(2000));
    for text in
        [format!("a0: &a0 [{}]\n{laughs}", nine("x")), quadratic, merges, format!("a0: &a0 {{c: 1}}\n{doubling}"), keys]
    {
        assert!(refusal(&text).contains("its aliases make too much of it"), "{text:.40}");
    }
}

#[test]
fn faults_of_keys_that_are_there_twice_are_bounded() {
    let text = format!("? {}\n: [{}]\n", "k".repeat(100_000), vec!["{a: 1, a: 2}"; 1000].join(","));
    for text in [text, "a: 1\n".repeat(100_000)] {
        let twice = read(text.as_bytes()).unwrap().twice.0;
        let size: usize = twice.iter().map(|fault| fault.pointer.len() + fault.message.len()).sum();
        assert!(!twice.is_empty() && size < 2_000_000 && twice.len() < 20_000, "{} of {size} bytes", twice.len());
    }
}

#[test]
fn manifests_are_written_as_kubectl_writes_them() {
    let manifest = json!({
        "apiVersion": "ray.io/v1",
        "metadata": {"name": "demo", "labels": {}, "annotations": {"on": "yes", "1": "0640", "a": "2.50"}},
        "spec": {"rayVersion": "2.52.0", "suspend": false, "none": null, "many": [1, -2, 0.5, 1e300, 1e-9], "empty": [],
            "list": [{"name": "a", "args": ["--x=1", "-c", "set -e\nrun: me\n"]}, [["b"], []], "c d"]},
    });
    let text = "\
apiVersion: ray.io/v1
metadata:
  name: demo
  labels: {}
  annotations:
    \"on\": \"yes\"
    \"1\": \"0640\"
    a: \"2.50\"
spec:
  rayVersion: \"2.52.0\"
  suspend: false
  none: null
  many:
  - 1
  - -2
  - 0.5
  - 1.0e+300
  - 1.0e-9
  empty: []
  list:
  - name: a
    args:
    - --x=1
    - -c
    - |
      set -e
      run: me
  - - - b
    - []
  - c d
";
    assert_eq!(write(&manifest), text);
    assert_eq!(value(text), manifest);
}

#[test]
fn what_any_reader_could_misread_is_quoted() {
    let words = "y Y yes No ON off true FALSE null Null ~ .inf -.INF .nan 0 -1 +1 0640 0o17 0x1F 0b11 1_000 1.5 .5 1. 1e3 \
        1:30 190:20:30 2001-01-01 2001-01-01T00:00:00Z 10.0.0.1 12e03 = << - ? : -- --- ... - ,a [a ]a {a }a #a &a *a !a |a >a \
        'a \"a %a @a `a ?a :a a: 0xdead_beef +.inf 1e 0. -0 1,000";
    let phrases =
        ["", " ", " a", "a ", "a: b", "a #b", "a\tb", "a\r", "\u{85}", "a\u{2028}b", "\u{feff}", "a\u{0}", "\u{7f}"];
    for word in words.split_whitespace().chain(phrases).filter(|word| *word != "1,000") {
        assert!(write(&json!(word)).starts_with('"'), "{word}");
        assert!(write(&json!({word: 1})).starts_with('"'), "{word}");
    }
    for word in
        "a 500m 4Gi rayproject/ray:2.52.0-py310 http://x/y?z=1 a:b a#b --flag=x /bin/sh $(VAR) é under_score a=b x-y <"
            .split(' ')
    {
        assert_eq!(write(&json!(word)).starts_with('"'), word == "<", "{word}");
    }
    let raw = write(&json!("\u{85}\u{2028}\u{2029}\u{feff}\u{7f}\u{0}\u{fffe}\u{1b}"));
    assert_eq!(raw, "\"\\u0085\\u2028\\u2029\\ufeff\\u007f\\u0000\\ufffe\\u001b\"\n");
}

#[test]
fn lines_are_a_block_only_where_that_is_exact() {
    for (text, written) in [
        ("a\nb", "|-\n  a\n  b\n"),
        ("a\nb\n", "|\n  a\n  b\n"),
        ("a\n\n  b\n\n\n", "|+\n  a\n\n    b\n\n\n"),
        ("# a\n--- b: c\n", "|\n  # a\n  --- b: c\n"),
        (" a\nb", "\" a\\nb\"\n"),
        ("\na", "\"\\na\"\n"),
        ("a\n \nb", "\"a\\n \\nb\"\n"),
        ("a\n\tb", "\"a\\n\\tb\"\n"),
        ("a\r\nb", "\"a\\r\\nb\"\n"),
        ("a\u{2028}\nb", "\"a\\u2028\\nb\"\n"),
        ("\n", "\"\\n\"\n"),
    ] {
        assert_eq!(write(&json!(text)), written);
        assert_eq!(value(written), json!(text));
    }
}

#[test]
fn merges_within_merges_have_an_end() {
    let chain = |levels: usize| {
        let levels = (1..=levels).map(|level| format!("a{level}: &a{level}\n  <<: *a{}\n", level - 1));
        format!("a0: &a0 {{k: v}}\n{}", levels.collect::<String>())
    };
    assert_eq!(read(chain(16).as_bytes()).unwrap().value["a16"], serde_json::json!({"k": "v"}));
    // On a thread with the stack of those that serve requests.
    for levels in [17, 120, 20_000] {
        let read = move || read(chain(levels).as_bytes()).map(|_| ()).unwrap_err().0[0].code;
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(read).unwrap();
        assert_eq!(thread.join().unwrap(), FaultCode::Syntax, "{levels}");
    }
}
