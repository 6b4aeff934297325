//! Kubernetes behind the ports.
