//! The integration tests, in one binary.

#[macro_use]
mod contract;

mod access;
mod attacks;
mod audit;
mod bed;
mod corpus;
mod crd;
mod doors;
mod errors;
mod faults;
mod layering;
mod manifests;
mod matrix;
mod metrics;
mod pages;
mod routes;
mod run;
mod samples;
mod selectors;
mod shutdown;
mod story;
mod streams;
mod support;
mod writes;
