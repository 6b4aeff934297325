#![doc = include_str!("../docs/architecture.md")]

pub mod access;
pub mod app;
pub mod audit;
pub mod cache;
pub mod clock;
pub mod config;
pub mod http;
pub mod manager;
pub mod metrics;
pub mod operations;
pub mod ray;
pub mod stream;
pub mod telemetry;
