#!/usr/bin/env bash
# control-plane.sh VERSION DIR compiles Kubernetes' programs, crictl and critest of a version into DIR:
# make test-kubernetes. Their modules replace others, so `go install` refuses them. A module made here
# names the same replacements.
set -euo pipefail
version=$1 out=$(realpath -m "$2") go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOFLAGS=-mod=mod CGO_ENABLED=0
$go mod init control-plane 2>/dev/null
module=$($go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
edits=("-require=k8s.io/kubernetes@$version" "-require=sigs.k8s.io/cri-tools@${version%.*}.0")
for replaced in $(sed -n 's,^\t\(k8s.io/[a-z0-9-]*\) v0.0.0$,\1,p' "$module"); do
	edits+=("-replace=$replaced=$replaced@v0.${version#v1.}")
done
$go mod edit "${edits[@]}"
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
$go build -ldflags "$flags" -o "$out.new/" sigs.k8s.io/cri-tools/cmd/crictl
$go test -c -o "$out.new/critest" sigs.k8s.io/cri-tools/cmd/critest
for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
	$go build -ldflags "$flags" -o "$out.new/" "k8s.io/kubernetes/cmd/$name"
done
mv "$out.new" "$out"
