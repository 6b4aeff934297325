#!/usr/bin/env bash
# Prints the folder of each version of KubeRay's operator that the tests read, that of go.mod first; downloads what isn't there.
set -euo pipefail
cd "$(dirname "$0")"
module=github.com/ray-project/kuberay/ray-operator
pinned=$(go list -m -f '{{.Version}}' "$module")
for version in "$pinned" v1.6.1 v1.6.0 v1.5.1 v1.5.0 v1.4.2 v1.4.0 v1.3.2 v1.3.1 v1.3.0; do
  go mod download "$module@$version"
  echo "$(go env GOMODCACHE)/$module@$version"
done
