package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// realHost makes a host with its own adapter, mlx5_0, in a mount namespace, and runs a program
// there. An ordinary user may not make device nodes, so files replace them. A program that
// opens one by mistake succeeds. $1 is an empty directory.
const realHost = `
set -eu
dev=$1; shift
mount -t tmpfs -o mode=755 dev "$dev"
for name in null zero random urandom; do touch "$dev/$name"; mount --bind "/dev/$name" "$dev/$name"; done
mkdir -p "$dev/char" "$dev/infiniband/by-ibdev"
for name in uverbs0 uverbs1 umad0 umad1 rdma_cm; do echo real > "$dev/infiniband/$name"; done
ln -s ../uverbs1 "$dev/infiniband/by-ibdev/uverbs-mlx5_0"
ln -s ../infiniband/uverbs1 "$dev/char/231:193"
mount --rbind "$dev" /dev
mount -t tmpfs sys /sys
nic=devices/pci0000:00/0000:00:05.0
cd /sys
mkdir -p class/infiniband class/infiniband_verbs class/infiniband_mad class/net class/misc/rdma_cm bus/pci/devices dev/char
for file in infiniband/mlx5_0/fw_ver infiniband_verbs/uverbs0/ibdev infiniband_verbs/uverbs1/ibdev infiniband_mad/umad0/ibdev infiniband_mad/umad1/ibdev; do
	mkdir -p "$nic/${file%/*}"
	echo real > "$nic/$file"
	dir=${file%/*}
	ln -s "../../$nic/$dir" "class/$dir"
done
mkdir -p "$nic/net/eth9"
ln -s ../../../0000:00:05.0 "$nic/net/eth9/device"
ln -s "../../$nic/net/eth9" class/net/eth9
ln -s "../../../$nic" bus/pci/devices/0000:00:05.0
ln -s "../../$nic/infiniband_verbs/uverbs1" dev/char/231:193
echo 10:58 > class/misc/rdma_cm/dev
cd /
exec "$@"
`

// TestHidden: whatever way a program takes, it finds gorxe's device, and not those
// that the host has.
func TestHidden(t *testing.T) {
	need(t, "unshare")
	if !selection.takes(core) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := oneDaemon(t)
	there := func(argv ...string) string {
		t.Helper()
		dir, err := os.MkdirTemp(scratch, "dev-")
		if err != nil {
			t.Fatal(err)
		}
		return start(t, d.host, d.env(), append([]string{"unshare", "-m", "sh", "-c", realHost, "sh", dir}, argv...)...).ok()
	}
	seek := append([]string{"env", roleEnv + "=seek", self},
		"/dev/infiniband/uverbs1", "/dev/infiniband/umad1",
		"/dev/infiniband/by-ibdev/uverbs-mlx5_0", "/dev/char/231:193", "/sys/dev/char/231:193/ibdev",
		"/dev/char/../infiniband/uverbs1", "/dev//./infiniband/uverbs1", "/sys/class/net/../infiniband/mlx5_0/fw_ver",
		"/sys/class/infiniband/mlx5_0/fw_ver", "/sys/class/infiniband_verbs/uverbs1/ibdev",
		"/sys/class/infiniband_mad/umad1/ibdev",
		"/sys/devices/pci0000:00/0000:00:05.0/infiniband/mlx5_0/fw_ver",
		"/sys/bus/pci/devices/0000:00:05.0/infiniband/mlx5_0/fw_ver",
		"/sys/class/net/eth9/device/infiniband_verbs/uverbs1/ibdev")
	run := func(argv ...string) string { return there(append([]string{gorxe, "run", "--"}, argv...)...) }

	// Without gorxe all of them are there.
	if out := there(seek...); strings.Count(out, ": open\n") != len(seek)-3 {
		t.Fatalf("the host's devices are not found on the host:\n%s", out)
	}
	if out := run(seek...); out != "" {
		t.Errorf("the host's devices are found under gorxe run:\n%s", out)
	}
	// The host's rdma_cm has the number 10:58, and what stands for its node is a file.
	const want = "rxe0\nabi_version\nuverbs0\nrdma_cm\numad0\nuverbs0\nrxe0\nown rdma_cm\n"
	if out := run("sh", "-c", "ls /sys/class/infiniband; ls /sys/class/infiniband_verbs; ls /dev/infiniband; "+
		"cat /sys/class/infiniband_verbs/uverbs0/ibdev; "+
		"test -c /dev/infiniband/rdma_cm && test $(cat /sys/class/misc/rdma_cm/dev) != 10:58 && echo own rdma_cm"); out != want {
		t.Errorf("under gorxe run there are\n%swant\n%s", out, want)
	}
}

// playSeek looks for files by absolute path, and from each directory on the way by
// a relative one, and prints where a call succeeds.
func playSeek(paths []string) int {
	for _, p := range paths {
		var st unix.Stat_t
		var stx unix.Statx_t
		buf := make([]byte, 64)
		for _, try := range []struct {
			way string
			err error
		}{
			{"stat", unix.Stat(p, &st)}, {"lstat", unix.Lstat(p, &st)},
			{"statx", unix.Statx(unix.AT_FDCWD, p, 0, unix.STATX_BASIC_STATS, &stx)},
			{"access", unix.Access(p, unix.F_OK)},
			{"readlink", second(unix.Readlink(p, buf))},
			{"open", opens(unix.AT_FDCWD, p, unix.O_RDONLY)},
			{"open to write", opens(unix.AT_FDCWD, p, unix.O_RDWR)},
			{"open as a path", opens(unix.AT_FDCWD, p, unix.O_PATH|unix.O_NOFOLLOW)},
		} {
			if try.err == nil {
				fmt.Printf("%s: %s\n", p, try.way)
			}
		}
		for i := 1; i < len(p); i++ {
			if p[i] != '/' || p[i-1] == '/' {
				continue
			}
			dir, rest := p[:i], strings.TrimLeft(p[i:], "/")
			seekFrom(dir, rest)
		}
	}
	return 0
}

// seekFrom looks for a relative path from a directory's descriptor, and from the
// directory.
func seekFrom(dir, rest string) {
	if fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil {
		var st unix.Stat_t
		if opens(fd, rest, unix.O_RDONLY) == nil || unix.Fstatat(fd, rest, &st, 0) == nil ||
			second(unix.Readlinkat(fd, rest, make([]byte, 64))) == nil {
			fmt.Printf("%s from a descriptor of %s\n", rest, dir)
		}
		_ = unix.Close(fd)
	}
	if unix.Chdir(dir) == nil {
		if opens(unix.AT_FDCWD, rest, unix.O_RDONLY) == nil {
			fmt.Printf("%s in %s\n", rest, dir)
		}
		if err := unix.Chdir("/"); err != nil {
			fmt.Println(err)
		}
	}
}

func opens(dirfd int, p string, flags int) error {
	fd, err := unix.Openat(dirfd, p, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func second[T any](_ T, err error) error { return err }
