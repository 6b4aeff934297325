//! What the fuzzer has found, again: each target of `fuzz` on each file of its corpus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::Outcome;

#[path = "../../fuzz/targets/mod.rs"]
mod targets;

/// Most files of one corpus, and the bytes that each stays below: what is kept is small.
const MOST: usize = 60;
const LARGEST: usize = 4096;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The files of a target's corpus; there are some.
fn corpus(target: &str) -> Outcome<Vec<PathBuf>> {
    let folder = fuzz().join("corpus").join(target);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<_>>>()?;
    files.sort();
    if files.is_empty() { Err(format!("{} is empty", folder.display()).into()) } else { Ok(files) }
}

#[test]
fn what_was_found_is_still_right() -> Outcome {
    for (target, _) in targets::TARGETS {
        for file in corpus(target)? {
            let data = std::fs::read(&file)?;
            let done = std::panic::catch_unwind(|| targets::run(target, &data));
            assert!(done.is_ok(), "{target} fails on {}", file.display());
        }
    }
    Ok(())
}

#[test]
fn corpora_are_small() -> Outcome {
    for (target, _) in targets::TARGETS {
        let files = corpus(target)?;
        assert!(files.len() <= MOST, "{target} has {} files", files.len());
        for file in files {
            assert!(file.metadata()?.len() < u64::try_from(LARGEST)?, "{} is too large", file.display());
        }
    }
    Ok(())
}

#[test]
fn every_target_can_be_fuzzed() -> Outcome {
    let listed: BTreeSet<_> = targets::TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    assert_eq!(listed.len(), targets::TARGETS.len());
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml"))?;
    let built: BTreeSet<_> = manifest
        .lines()
        .filter_map(|line| Some(line.trim().strip_prefix("{ name = \"")?.split_once('"')?.0.to_owned()))
        .collect();
    assert_eq!(built, listed, "fuzz/Cargo.toml has other targets");
    let mut kept = BTreeSet::new();
    for entry in std::fs::read_dir(fuzz().join("corpus"))? {
        kept.insert(entry?.file_name().into_string().map_err(|name| format!("{}", name.display()))?);
    }
    assert_eq!(kept, listed, "fuzz/corpus has other targets");
    Ok(())
}
