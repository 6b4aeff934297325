#![doc = include_str!("../docs/architecture.md")]

pub mod clock;
pub mod manager;
pub mod ray;
