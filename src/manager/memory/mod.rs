//! Kubernetes and `KubeRay` in a map, for one person.
