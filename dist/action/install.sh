#!/usr/bin/env bash
# A step of action.yml: installs gorxe and the verbs libraries.
set -euo pipefail

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
	echo "::error::gorxe's action needs a runner with Debian or Ubuntu; elsewhere, install a release by hand"
	exit 1
fi
root=()
[ "$(id -u)" = 0 ] || root=(sudo)
temp=${RUNNER_TEMP:-/tmp}/gorxe-install
mkdir -p "$temp"

package=$INPUT_PACKAGE
if [ -z "$package" ]; then
	arch=$(dpkg --print-architecture)
	tag=()
	[ "$INPUT_VERSION" = latest ] || tag=("v${INPUT_VERSION#v}")
	rm -f "$temp"/*.deb
	gh release download "${tag[@]}" --repo gorxe/gorxe --dir "$temp" --clobber \
		--pattern "gorxe_*_$arch.deb" --pattern SHA256SUMS
	(cd "$temp" && sha256sum --check --strict --ignore-missing SHA256SUMS)
	package=$(echo "$temp"/gorxe_*_"$arch".deb)
fi
mapfile -t found < <(compgen -G "$package") # a pattern may name it
package=${found[0]:-$package}
if [ ! -f "$package" ]; then
	echo "::error::there is no package $package"
	exit 1
fi
read -ra more <<<"${INPUT_PACKAGES//$'\n'/ }"
export DEBIAN_FRONTEND=noninteractive
install=("${root[@]}" apt-get install -y -q --no-install-recommends "$(realpath "$package")" "${more[@]}")
# A runner's package lists may be old: refresh them if that is why apt-get fails.
"${install[@]}" || { "${root[@]}" apt-get update -q && "${install[@]}"; }
gorxe version
gorxe doctor
