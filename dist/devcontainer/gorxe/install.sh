#!/usr/bin/env bash
# The feature's installer. It runs as root while the image of the devcontainer is made; the
# options are VERSION, PACKAGE and PACKAGES.
set -euo pipefail

if ! command -v apt-get >/dev/null; then
	echo "gorxe: this feature needs an image of Debian or Ubuntu" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
package=${PACKAGE:-}
if [ -z "$package" ]; then
	apt-get install -y -q --no-install-recommends ca-certificates curl
	temp=$(mktemp -d)
	releases=https://github.com/gorxe/gorxe/releases
	path=latest/download
	[ "${VERSION:-latest}" = latest ] || path=download/v${VERSION#v}
	curl -fsSL -o "$temp/SHA256SUMS" "$releases/$path/SHA256SUMS"
	file=$(sed -n "s/^[0-9a-f]*  \(gorxe_.*_$(dpkg --print-architecture)\.deb\)$/\1/p" "$temp/SHA256SUMS")
	curl -fsSL -o "$temp/$file" "$releases/$path/$file"
	(cd "$temp" && sha256sum --check --strict --ignore-missing SHA256SUMS)
	package=$temp/$file
fi
if [ ! -f "$package" ]; then
	echo "gorxe: there is no package $package" >&2
	exit 1
fi
read -ra more <<<"${PACKAGES:-}"
apt-get install -y -q --no-install-recommends "$(realpath "$package")" "${more[@]}"
rm -rf /var/lib/apt/lists/* "${temp:-}"
gorxe version
