//! The domain: what Ray clusters are and what can be said of them. Pure; knows no HTTP and no client.

pub mod cluster;
pub mod document;
pub mod facts;
pub mod fault;
pub mod json;
pub mod lens;
pub mod name;
pub mod quantity;
pub mod render;
pub mod status;
pub mod template;
pub mod values;
pub mod yaml;

#[cfg(test)]
mod tests;
