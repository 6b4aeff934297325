//! What would become of a container's command. Nothing is run: a small reader knows `exit N`, `false`, `sleep`, `echo`,
//! `sh -c` and lists of them. A command that it doesn't know works, and runs for ever where nothing follows it; a script
//! with anything else in it (pipes, loops, redirections) runs for ever as a whole.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::image::Reference;
use crate::ray::quantity::Quantity;

/// What becomes of a container that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Run {
    /// The runtime can't start it: what it says.
    Refused(String),
    /// It runs until it is ended.
    Forever,
    /// It ends by itself.
    Ends(Ending),
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) after: Duration,
    pub(super) exit_code: i32,
    /// Killed for its memory.
    pub(super) oom: bool,
    /// What it printed.
    pub(super) output: String,
}

/// How deep shells in shells are read.
const DEPTH: usize = 8;
/// A sleep that is longer is one for ever.
const LONGEST: Duration = Duration::from_hours(24 * 365);
/// What containerd says before the name of a program that isn't there.
const NO_START: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: ";
/// Commands of a shell that are no programs.
const BUILTINS: [&str; 6] = ["exit", "cd", "export", "ulimit", "set", "wait"];
/// Commands that end at once and well, the last of a list too.
const QUICK: [&str; 24] = [
    "true", ":", "cd", "export", "unset", "ulimit", "set", "umask", "mkdir", "rm", "cp", "mv", "ln", "touch", "chmod",
    "chown", "ls", "cat", "env", "date", "hostname", "id", "pip", "apt-get",
];

/// Foretells the run of a container; init containers do their work and end.
pub(super) fn run(container: &Container, init: bool) -> Run {
    let image = Image::of(container);
    let command = container.command.as_deref().unwrap_or_default();
    let argv: Vec<&str> = command.iter().chain(container.args.iter().flatten()).map(String::as_str).collect();
    let entry_point = command.is_empty() && !image.ray && !image.shell;
    if over_memory(container) {
        let output = String::new();
        return Run::Ends(Ending { after: Duration::from_secs(3), exit_code: 137, oom: true, output });
    }
    let Some(program) = argv.first().filter(|_| !entry_point) else {
        // Without a command a shell ends at once; every other image's program runs.
        return if init || image.shell { ends(0, String::new()) } else { Run::Forever };
    };
    if !image.has(program) || BUILTINS.contains(program) {
        let stat = if program.contains('/') {
            format!("stat {program}: no such file or directory")
        } else {
            "executable file not found in $PATH".to_owned()
        };
        return Run::Refused(format!("{NO_START}\"{program}\": {stat}"));
    }
    let mut shell = Shell { image: &image, init, name: program, output: String::new(), slept: Duration::ZERO };
    match shell.command(&argv, true, 0) {
        Step::Done(exit_code) | Step::Exit(exit_code) => {
            let after = shell.slept.max(Duration::from_secs(1));
            Run::Ends(Ending { after, exit_code, oom: false, output: shell.output })
        }
        Step::Forever if init => ends(0, shell.output),
        Step::Forever => Run::Forever,
    }
}

fn ends(exit_code: i32, output: String) -> Run {
    Run::Ends(Ending { after: Duration::from_secs(1), exit_code, oom: false, output })
}

/// Whether the variable `RAY_FAKE_ALLOC` says that it takes more memory than its limit.
fn over_memory(container: &Container) -> bool {
    let amount = |text: &str| Quantity::parse(text).map(|amount| amount.nanos()).ok();
    let taken = container.env.iter().flatten().find(|variable| variable.name == "RAY_FAKE_ALLOC");
    let taken = taken.and_then(|variable| amount(variable.value.as_deref()?));
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = limits.and_then(|limits| amount(&limits.get("memory")?.0));
    taken.zip(limit).is_some_and(|(taken, limit)| taken > limit)
}

/// What an image has to offer.
struct Image {
    /// One of Ray's own.
    ray: bool,
    /// Its program is a shell, or Python, which ends at once where nobody talks to it.
    shell: bool,
    lacks: &'static [&'static str],
}

impl Image {
    fn of(container: &Container) -> Self {
        let repository = Reference::parse(container.image.as_deref().unwrap_or_default());
        let repository = repository.map(|reference| reference.repository()).unwrap_or_default();
        let (shell, lacks): (_, &[_]) = match repository.as_str() {
            "docker.io/library/busybox" | "docker.io/library/alpine" => {
                (true, &["bash", "python", "python3", "ray", "curl", "pip", "pip3"])
            }
            "docker.io/library/python" => (true, &["ray"]),
            "docker.io/library/ubuntu" | "docker.io/library/debian" | "docker.io/library/bash" => {
                (true, &["python", "python3", "ray", "curl", "pip", "pip3"])
            }
            other
                if ["library/", "fluent/", "curlimages/", "grafana/", "prom/"].iter().any(|owner| of(other, owner)) =>
            {
                (false, &["python", "python3", "ray", "pip", "pip3"])
            }
            _ => (false, &[]),
        };
        Self { ray: of(&repository, "rayproject/"), shell, lacks }
    }

    /// Whether there is such a program: not one whose name says that there isn't, or a common slip of the fingers.
    fn has(&self, program: &str) -> bool {
        let slips = ["pyhton", "pythn", "pyton", "rya", "raay", "bsah"];
        let nothing =
            ["nosuch", "no-such", "no_such", "not-found", "notfound", "nonexist", "does-not-exist", "missing"];
        let absent = |part: &str| {
            let part = part.to_ascii_lowercase();
            slips.contains(&part.as_str()) || nothing.iter().any(|start| part.starts_with(start))
        };
        !program.split('/').any(absent) && !self.lacks.contains(&base_name(program))
    }
}

fn of(repository: &str, owner: &str) -> bool {
    repository.strip_prefix("docker.io/").is_some_and(|path| path.starts_with(owner))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Where a command leaves its shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It ended so, and the next one follows.
    Done(i32),
    /// The shell ends so.
    Exit(i32),
    /// It never ends.
    Forever,
}

struct Shell<'a> {
    image: &'a Image,
    init: bool,
    /// The container's program, for what it says of commands that it doesn't find.
    name: &'a str,
    output: String,
    slept: Duration,
}

/// How much of what a shell says is kept, in bytes: the last 2 KiB are all that anybody is told.
const OUTPUT: usize = 4096;

impl Shell<'_> {
    /// Says something; the oldest is forgotten.
    fn say(&mut self, text: &str) {
        self.output.push_str(end_of(text, OUTPUT));
        let end = end_of(&self.output, OUTPUT);
        if end.len() < self.output.len() {
            self.output = end.to_owned();
        }
    }

    /// One command; `last` says that nothing follows it.
    fn command(&mut self, words: &[&str], last: bool, depth: usize) -> Step {
        let Some((program, arguments)) = words.split_first() else { return Step::Done(0) };
        let first = arguments.first().copied();
        match base_name(program) {
            // What a variable says isn't known.
            "exit" => match first.unwrap_or("0").parse::<i64>() {
                Ok(code) => Step::Exit(i32::try_from(code & 0xff).unwrap_or(1)),
                Err(_) => Step::Forever,
            },
            "false" => Step::Done(1),
            "echo" => {
                for word in arguments {
                    self.say(word);
                    self.say(if arguments.last() == Some(word) { "" } else { " " });
                }
                self.say("\n");
                Step::Done(0)
            }
            "sleep" => match first.and_then(duration) {
                Some(time) if self.slept.saturating_add(time) < LONGEST => {
                    self.slept = self.slept.saturating_add(time);
                    Step::Done(0)
                }
                Some(_) | None => Step::Forever,
            },
            // From here on any command's failure would end the shell.
            "set" if first.is_some_and(|option| option.starts_with('-') && option.contains('e')) => Step::Forever,
            _ if !self.image.has(program) => {
                let name = self.name;
                let words = if base_name(name) == "sh" {
                    format!("{name}: {program}: not found\n")
                } else {
                    format!("{name}: line 1: {program}: command not found\n")
                };
                self.say(&words);
                Step::Done(127)
            }
            "sh" | "bash" | "dash" | "ash" => self.shell(arguments, last, depth),
            name if QUICK.contains(&name) || !last || self.init => Step::Done(0),
            _ => Step::Forever,
        }
    }

    /// `sh -c script`; a script in a file does what nobody knows.
    fn shell(&mut self, arguments: &[&str], last: bool, depth: usize) -> Step {
        let options = arguments.iter().take_while(|word| word.starts_with('-'));
        let reads_script = options.clone().any(|option| !option.starts_with("--") && option.contains('c'));
        let script = arguments.get(options.count());
        match script {
            Some(script) if reads_script && depth < DEPTH => match self.script(script, last, depth + 1) {
                Step::Exit(code) | Step::Done(code) => Step::Done(code),
                Step::Forever => Step::Forever,
            },
            Some(_) if last && !self.init => Step::Forever,
            Some(_) | None => Step::Done(0),
        }
    }

    fn script(&mut self, script: &str, last: bool, depth: usize) -> Step {
        let Some(commands) = read(script) else { return if last { Step::Forever } else { Step::Done(0) } };
        let mut code = 0;
        for (index, (joint, words)) in commands.iter().enumerate() {
            let runs = match joint {
                Joint::Always => true,
                Joint::And => code == 0,
                Joint::Or => code != 0,
            };
            if !runs {
                continue;
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let last = last && index + 1 == commands.len();
            match self.command(&words, last, depth) {
                Step::Done(new) => code = new,
                end @ (Step::Exit(_) | Step::Forever) => return end,
            }
        }
        Step::Done(code)
    }
}

/// What joins a command to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    Always,
    And,
    Or,
}

/// The commands of a script; `None` where there is more to it than lists of simple commands.
fn read(script: &str) -> Option<Vec<(Joint, Vec<String>)>> {
    let mut commands = Vec::new();
    let (mut joint, mut words, mut word): (_, Vec<String>, Option<String>) = (Joint::Always, Vec::new(), None);
    let mut letters = script.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        end if end == letter => break,
                        '\\' if letter == '"' => word.push(letters.next()?),
                        inner => word.push(inner),
                    }
                }
                continue;
            }
            '\\' => {
                let escaped = letters.next()?;
                if escaped != '\n' {
                    word.get_or_insert_default().push(escaped);
                }
                continue;
            }
            '|' if letters.next_if_eq(&'|').is_some() => Some(Joint::Or),
            '&' if letters.next_if_eq(&'&').is_some() => Some(Joint::And),
            '|' | '&' | '(' | ')' | '<' | '>' | '`' => return None,
            ';' | '\n' => Some(Joint::Always),
            '#' if word.is_none() => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
                continue;
            }
            letter if letter.is_whitespace() => None,
            letter => {
                word.get_or_insert_default().push(letter);
                continue;
            }
        };
        words.extend(word.take());
        if let Some(next) = next {
            if !words.is_empty() {
                commands.push((joint, std::mem::take(&mut words)));
                joint = next;
            } else if next != Joint::Always {
                return None;
            }
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push((joint, words));
    }
    let compound = ["while", "until", "for", "if", "case", "{", "!", "function", "exec"];
    let simple = |words: &[String]| {
        words.first().is_some_and(|first| !compound.contains(&first.as_str()) && !first.contains('='))
    };
    commands.iter().all(|(_, words)| simple(words)).then_some(commands)
}

/// The time of `sleep`; `None` for one that lasts.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (number, "s") => (number, 1.0),
        (number, "m") => (number, 60.0),
        (number, "h") => (number, 3600.0),
        (number, "d") => (number, 86400.0),
        _ => (text, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

/// The last bytes of a text, from the start of a character.
fn end_of(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default()
}
