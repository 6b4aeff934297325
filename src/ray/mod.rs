//! The domain: what Ray clusters are and what can be said of them. Pure; knows no HTTP and no client.

pub mod cluster;
pub mod facts;
