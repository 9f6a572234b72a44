#!/usr/bin/env bash
# Says what to do if this machine has no Go, or one that is too old for go.mod. Go 1.21 and newer
# fetch the Go that go.mod asks for, unless GOTOOLCHAIN forbids it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
wanted=$(sed -n 's/^go //p' go.mod)
if ! command -v "$go" >/dev/null 2>&1; then
	echo "make: Go is not installed or not in PATH. Install Go $wanted or newer: https://go.dev/doc/install" >&2
	exit 1
fi
if said=$("$go" list -m 2>&1); then
	exit 0
fi
echo "make: $(GOTOOLCHAIN=local "$go" version | cut -d' ' -f3) cannot build this module: $said" >&2
echo "make: install Go $wanted or newer: https://go.dev/doc/install" >&2
exit 1
