#!/usr/bin/env bash
# Unpacks the ibverbs-utils and perftest of a newer Debian release, with every
# library that they need, into a directory that they can be run in with chroot.
# Nothing is installed, and apt's own configuration is not touched.
# usage: scripts/newer-rdma-core.sh DIR [RELEASE]   (default trixie)
set -euo pipefail

dir=$1
release=${2:-trixie}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
packages=(ibverbs-utils ibverbs-providers perftest)

if [ -e "$dir/.complete" ]; then
	echo "newer rdma-core: $(cat "$dir/.complete") in $dir"
	exit 0
fi
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for tool in apt-get dpkg-deb; do
	if ! command -v "$tool" >/dev/null; then
		echo "newer rdma-core: needs $tool" >&2
		exit 1
	fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,archives/partial}
echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
: >"$work/status" # nothing is installed there, so apt fetches all that is needed
apt=(apt-get -qq
	-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
	-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
	-o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status"
	-o Dir::Cache::Archives="$work/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
	-o APT::Install-Recommends=false -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true)
"${apt[@]}" update
"${apt[@]}" install -y --download-only "${packages[@]}"

rm -rf "$dir"
mkdir -p "$dir"
# Newer releases have /bin, /lib and so on as links into /usr.
mkdir -p "$dir"/usr/{bin,sbin,lib,lib64}
for link in bin sbin lib lib64; do
	ln -s "usr/$link" "$dir/$link"
done
for package in "$work"/archives/*.deb; do
	# Through tar: dpkg-deb -x would replace the links above by directories.
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir" --keep-directory-symlink --no-same-owner
done
rm -rf "$dir"/usr/share/{doc,man,locale,lintian}
dpkg-deb -f "$work"/archives/libibverbs1_*.deb Version >"$work/version"
echo "rdma-core $(cat "$work/version") of Debian $release" >"$dir/.complete"
cat "$dir/.complete"
