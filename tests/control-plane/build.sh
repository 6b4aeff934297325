#!/usr/bin/env bash
# Builds bin/controlplane and bin/kubectl, and downloads the operator's other versions. Does next to nothing when they are up to date.
set -euo pipefail
cd "$(dirname "$0")"
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
package=k8s.io/component-base/version
mkdir -p bin
go build -ldflags "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}" -o bin/ ./cmd/controlplane ./cmd/kubectl
./operators.sh > /dev/null
