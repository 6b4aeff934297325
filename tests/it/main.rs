//! The integration tests, in one binary.

#[macro_use]
mod contract;

mod access;
mod attacks;
mod audit;
mod bed;
mod begun;
mod corpus;
mod crd;
mod doors;
mod dropped_groups;
mod dry_runs;
mod errors;
mod etags;
mod faults;
mod groups;
mod layering;
mod manifests;
mod matrix;
mod metrics;
mod pages;
mod reads;
mod repeats;
mod restart_writes;
mod review;
mod routes;
mod run;
mod samples;
mod selectors;
mod shutdown;
mod story;
mod streams;
mod support;
mod writes;
