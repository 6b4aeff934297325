//! Each fuzz target is this, under its own name.

#![no_main]

mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::run(env!("CARGO_BIN_NAME"), data));
