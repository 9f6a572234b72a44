# Sourced by scripts that unpack packages of another Debian suite. private_apt
# fetches the package lists of suites into a scratch directory. It sets $apt, the options
# that make apt-get and apt-cache use only those lists. It neither reads nor changes the
# machine's own apt, and no package counts as installed.
# usage: private_apt SCRATCH SUITE...
private_apt() {
	local scratch=$1 suite mirror
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	shift
	for tool in apt-get dpkg-deb; do
		if ! command -v "$tool" >/dev/null; then
			echo "$0: needs $tool" >&2
			return 1
		fi
	done
	mkdir -p "$scratch"/{lists/partial,archives/partial}
	: >"$scratch/status"
	for suite in "$@"; do
		mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
		case $suite in *-security) mirror=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security} ;; esac
		echo "deb [signed-by=$keyring] $mirror $suite main"
	done >"$scratch/sources.list"
	apt=(-qq
		-o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
		-o Dir::State::Lists="$scratch/lists" -o Dir::State::status="$scratch/status"
		-o Dir::Cache::Archives="$scratch/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o APT::Install-Recommends=false -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true)
	apt-get "${apt[@]}" update
}

# unpack_archives unpacks the packages that private_apt's apt-get has downloaded, without their
# documentation. KEEP is a part of it that stays. /proc, /sys, /dev and /tmp are mount points.
# usage: unpack_archives SCRATCH DIR [KEEP]
unpack_archives() {
	local scratch=$1 dir=$2 keep=${3:-} link package
	rm -rf "$dir"
	mkdir -p "$dir"/{proc,sys,dev,tmp}
	# Newer releases have /bin, /lib and so on as links into /usr.
	mkdir -p "$dir"/usr/{bin,sbin,lib,lib64}
	for link in bin sbin lib lib64; do
		ln -s "usr/$link" "$dir/$link"
	done
	for package in "$scratch"/archives/*.deb; do
		# Through tar: dpkg-deb -x would replace the links above by directories.
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir" --keep-directory-symlink --no-same-owner
	done
	[ -z "$keep" ] || mv "$dir/$keep" "$scratch/kept"
	rm -rf "$dir"/usr/share/{doc,man,locale,lintian}
	if [ -n "$keep" ]; then
		mkdir -p "$dir/${keep%/*}"
		mv "$scratch/kept" "$dir/$keep"
	fi
	find "$dir/usr/lib" -name '*.a' -delete
}
