//! The domain: what Ray clusters are and what can be said of them. Pure; knows no HTTP and no client.

pub mod begun;
pub mod body;
mod check;
pub mod cluster;
mod describe;
pub mod document;
pub mod facts;
pub mod fault;
pub mod json;
pub mod lens;
pub mod managed;
pub mod manifest;
pub mod mask;
pub mod members;
pub mod name;
pub mod outdated;
pub mod owner;
pub mod quantity;
pub mod render;
pub mod revision;
mod rules;
pub mod schema;
pub mod selector;
pub mod status;
pub mod version;
pub mod yaml;

#[cfg(test)]
mod tests;
