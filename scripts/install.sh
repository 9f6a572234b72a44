#!/usr/bin/env bash
# `make install` and `make uninstall` run this. It installs the program, its manual pages and
# completion for shells below DESTDIR and PREFIX.
# usage: scripts/install.sh [--remove] DESTDIR PREFIX
set -euo pipefail
cd "$(dirname "$0")/.."
remove=
if [ "$1" = --remove ]; then
	remove=yes
	shift
fi
prefix=$2
to=$1$prefix
# Other files of these names are not ours, so each file is named.
completions=(
	"gorxe.bash $to/share/bash-completion/completions/gorxe"
	"gorxe.fish $to/share/fish/vendor_completions.d/gorxe.fish"
	"_gorxe $to/share/zsh/site-functions/_gorxe"
)

if [ -n "$remove" ]; then
	rm -f "$to"/bin/gorxe{,-runtime} "$to"/lib/wireshark/extcap/gorxe-extcap "$to"/share/man/man1/gorxe{,-*}.1 "$to"/share/man/man7/gorxe-*.7
	rm -f "$to/include/gorxe_sanitize.h"
	for c in "${completions[@]}"; do rm -f "${c#* }"; done
	echo "removed gorxe from $to"
	exit 0
fi

# Root of sudo may have no Go: then it installs what the user has built.
if [ ! -x bin/gorxe ] || command -v "${GO:-go}" >/dev/null 2>&1; then
	make --no-print-directory build
fi
if ! mkdir -p "$to/bin" 2>/dev/null || [ ! -w "$to/bin" ]; then
	echo "make: this user cannot write to $to/bin: sudo make install, or make install PREFIX=\$HOME/.local" >&2
	exit 1
fi
install -m 755 bin/gorxe "$to/bin/gorxe.new"
mv "$to/bin/gorxe.new" "$to/bin/gorxe" # a daemon may run the old one
ln -sf gorxe "$to/bin/gorxe-runtime"
# Wireshark looks there if PREFIX is a user's ~/.local.
mkdir -p "$to/lib/wireshark/extcap"
ln -sf ../../../bin/gorxe "$to/lib/wireshark/extcap/gorxe-extcap"
bin/gorxe manual "$to/share/man"
install -D -m 644 dist/include/gorxe_sanitize.h "$to/include/gorxe_sanitize.h"
for c in "${completions[@]}"; do
	install -D -m 644 "dist/completions/${c% *}" "${c#* }"
done
echo "installed $to/bin/gorxe"
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "$prefix/bin is not in PATH. For this shell: export PATH=$prefix/bin:\$PATH" ;;
esac
