# enter.sh ROOT SCRIPT: makes ROOT the root of this mount namespace and boots systemd, with
# SCRIPT as its only service. systemd needs a root that is a mount point.
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cp "$2" "$1/check.sh"
cd "$1"
mkdir -p old
pivot_root . old
cd /
mount -t proc proc /proc
umount -l /old
rmdir /old
mount -t sysfs sys /sys
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tmpfs dev /dev
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
	set -- $node
	mknod -m 666 "/dev/$1" c "$2" "$3"
done
mkdir /dev/shm
ln -s /proc/self/fd /dev/fd
mount --make-rshared /
ip link set lo up
mkdir -p /run/systemd/system
cat > /run/systemd/system/check.service <<'U'
[Unit]
DefaultDependencies=no
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=240
StandardOutput=file:/result
StandardError=file:/result
ExecStart=/bin/sh -ex /check.sh
U
export container=gorxe-test
exec /lib/systemd/systemd --system --unit=check.service --log-target=null --show-status=no
