//! What somebody may not see makes no difference to anything that they are told: two worlds which differ in nothing
//! else answer them alike, byte for byte.
//!
//! Who may see what is judged by [`oracle`], which knows nothing of the code.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

mod asks;
mod backend;
mod follow;
mod oracle;
mod still;
mod untaken;
mod world;

/// Fixed seeds and a bounded count; `RAYGATE_LONG` has fresh seeds and many more.
fn config(seed: u64, cases: u32) -> ProptestConfig {
    let long = std::env::var_os("RAYGATE_LONG").is_some();
    ProptestConfig {
        cases: if long { 40 * cases } else { cases },
        rng_seed: if long { RngSeed::Random } else { RngSeed::Fixed(seed) },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
