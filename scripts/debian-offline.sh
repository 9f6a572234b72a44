#!/usr/bin/env bash
# Makes what the tests need to install Debian packages without a network.
# bin/base-bookworm.tar is Debian's base system with apt. bin/debs is a repository with the
# packages that images and first-time users install. Does nothing if both are there. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
base=bin/base-bookworm.tar
debs=bin/debs
packages=(
	ibverbs-providers ibverbs-utils perftest rdmacm-utils infiniband-diags iproute2
	gcc libc6-dev libibverbs-dev librdmacm-dev make git ca-certificates curl man-db
	python3 python3-venv python3-pytest
)
stamp=$(printf '%s\n' "${packages[@]}" | sha256sum | cut -c 1-16)
[ -e "$base" ] && [ -e "$debs/.$stamp" ] && exit 0
mkdir -p bin
if [ ! -e "$base" ]; then
	echo "debian-offline: making $base (once)"
	mmdebstrap --variant=minbase --quiet bookworm "$base.new.tar"
	mv "$base.new.tar" "$base"
fi

echo "debian-offline: making $debs (once)"
root=$(mktemp -d)
trap 'rm -rf "$root" "$debs.new"' EXIT
tar -xf "$base" -C "$root" --exclude='./dev/*'
cp /etc/resolv.conf "$root/etc/"
for file in /etc/apt/apt.conf.d/*proxy*; do
	[ ! -e "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
done
unshare --mount sh -ec 'mount --bind /dev "$0/dev"; mount -t proc proc "$0/proc"
	chroot "$0" apt-get -q update
	exec chroot "$0" apt-get -q -y --no-install-recommends --download-only install "$@"' "$root" "${packages[@]}" >"$root/log" 2>&1 ||
	{ cat "$root/log"; exit 1; }
rm -rf "$debs.new"
mkdir "$debs.new"
mv "$root"/var/cache/apt/archives/*.deb "$debs.new"
cd "$debs.new"
for deb in *.deb; do
	dpkg-deb --field "$deb"
	printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum <"$deb" | cut -d' ' -f1)"
done >Packages
touch ".$stamp"
cd - >/dev/null
rm -rf "$debs"
mv "$debs.new" "$debs"
