#!/usr/bin/env bash
# Unpacks the kernel image and modules of Debian's linux-image-amd64 in a suite into the
# user's cache, and prints the directory. Nothing is installed. An unpacked kernel stays;
# remove the directory to get a newer one.
# usage: scripts/debian-kernel.sh SUITE   (bookworm, bookworm-backports, ...)
set -euo pipefail
. "$(dirname "$0")/private-apt.sh"

suite=$1
dir=${XDG_CACHE_HOME:-$HOME/.cache}/gorxe/kernels/$suite

if [ -e "$dir/.complete" ]; then
	echo "$dir"
	exit 0
fi
echo "debian-kernel: fetching the kernel of $suite" >&2
suites=("$suite")
case $suite in *-*) ;; *) suites+=("$suite-security") ;; esac

mkdir -p "$(dirname "$dir")"
work=$(mktemp -d "$dir.XXXXXX") # beside it, so that what is there is complete
trap 'rm -rf "$work"' EXIT
private_apt "$work/apt" "${suites[@]}"
package=$(apt-cache "${apt[@]}" depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
	echo "debian-kernel: $suite has no linux-image-amd64" >&2
	exit 1
fi
# Newer suites have the image and the modules in packages of their own.
mapfile -t parts < <(apt-cache "${apt[@]}" depends "$package" | sed -n 's/^ *Depends: \(linux-\(binary\|modules\)-[^ ]*\)$/\1/p')
(cd "$work" && apt-get "${apt[@]}" download "$package" "${parts[@]}")
mkdir "$work/root"
for deb in "$work"/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --no-same-owner
done
[ -e "$work/root/lib" ] || ln -s usr/lib "$work/root/lib"
if [ ! -e "$work/root/boot" ]; then # the image is beside the modules
	mkdir "$work/root/boot"
	for image in "$work"/root/lib/modules/*/vmlinuz; do
		version=$(basename "$(dirname "$image")")
		ln -s "../lib/modules/$version/vmlinuz" "$work/root/boot/vmlinuz-$version"
	done
fi
dpkg-deb -f "$work/$package"_*.deb Package Version | sed 's/^[^:]*: //' | paste -sd ' ' >"$work/root/.complete"
rm -rf "$dir"
mv "$work/root" "$dir"
echo "debian-kernel: $(cat "$dir/.complete")" >&2
echo "$dir"
