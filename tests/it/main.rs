//! The integration tests, in one binary.

#[macro_use]
mod contract;

mod bed;
mod story;
mod support;
