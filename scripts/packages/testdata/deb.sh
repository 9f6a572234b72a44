# Runs as a service of a booted Debian that has the base system, perftest, man-db and
# bash-completion. It installs the package, uses it and removes it.
fails() { if "$@"; then echo "this must fail: $*"; exit 1; fi; }
list() {
	find / -xdev \( -path /var/cache/man -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /result \) -prune -o -print | sort
}
as() { # as GROUPS CMD...: as a user with these groups and no others
	groups=$1
	shift
	setpriv --reuid 1000 --regid 1000 $groups env HOME=/tmp "$@"
}

list > /run/before
dpkg -i /gorxe.deb
getent group rdma
gorxe version

# The manual.
man gorxe-run | grep -q 'gorxe-run - run a program with an RDMA device'
man 7 gorxe-faults | grep -q 'how to test with lost packets'
man -k gorxe | grep -q '^gorxe-pcap-check (1)'

# Completion, as bash-completion loads it.
cat > /tmp/complete.bash <<'B'
source /usr/share/bash-completion/bash_completion
__load_completion gorxe
[[ $(complete -p gorxe) == *"-C 'gorxe' gorxe" ]]
[[ $(COMP_LINE='gorxe run --dev' COMP_POINT=15 gorxe) == $'--device\n--devices' ]]
B
bash -e /tmp/complete.bash

# Two programs, without a daemon of the system.
as --clear-groups gorxe run --device rxe0=lo -- bash -e -c '
	ib_write_bw -F -d rxe0 -x 1 -n 500 > /tmp/server &
	until grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; do :; done
	ib_write_bw -F -d rxe0 -x 1 -n 500 127.0.0.1
	wait $!'

# The service: the socket starts it, for members of the group.
systemd-analyze verify /usr/lib/systemd/system/gorxe.service /usr/lib/systemd/system/gorxe.socket
fails systemctl is-enabled gorxe.socket
systemctl enable --now gorxe.socket
fails systemctl is-active gorxe.service
as "--groups $(getent group rdma | cut -d: -f3)" gorxe run sh -ec 'ibv_devinfo -d rxe0 | grep -q PORT_ACTIVE; gorxe status' > /tmp/member
grep '^daemon, process' /tmp/member
systemctl is-active gorxe.service
fails as --clear-groups gorxe status --socket /run/gorxe.sock

# Installing again leaves the service alone.
pid=$(systemctl show -P MainPID gorxe.service)
dpkg -i /gorxe.deb
test "$pid" = "$(systemctl show -P MainPID gorxe.service)"

# (systemd empties /tmp when it starts the first service.)
# Removal leaves nothing: no process, no socket, no file.
dpkg -P gorxe
fails systemctl is-active gorxe.socket
fails test -e /run/gorxe.sock
fails pidof gorxe
list > /run/after
diff /run/before /run/after
echo passed
