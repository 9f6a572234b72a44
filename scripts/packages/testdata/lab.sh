# lab.sh DIR LAB SCRIPT ENGINE ARG runs SCRIPT in the directory LAB, with ARG as $0 and the containers
# of ENGINE in DIR. It is the first process of a mount namespace and a network namespace.
set -e
dir=$1 lab=$2 script=$3 engine=$4 argument=$5
mkdir "$dir/run"
mount --bind "$dir/run" /run # the engines' sockets and namespaces
mount -t tmpfs tmpfs /dev/shm # podman's locks
ip link set lo up
cat >"$dir/containers.conf" <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=2000:2000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "$dir/networks"
END
cat >"$dir/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$dir/root"
runroot = "$dir/run"
END
cat >"$dir/daemon.json" <<END
{"data-root": "$dir/data", "exec-root": "$dir/exec", "pidfile": "$dir/pid", "hosts": ["unix://$dir/socket"],
 "bridge": "none", "iptables": false, "ip-forward": false, "exec-opts": ["native.cgroupdriver=cgroupfs"]}
END
export CONTAINERS_CONF=$dir/containers.conf CONTAINERS_STORAGE_CONF=$dir/storage.conf DOCKER_HOST=unix://$dir/socket engine
if [ "$engine" = docker ]; then
	dockerd --config-file "$dir/daemon.json" >"$dir/log" 2>&1 &
	until docker version >/dev/null 2>&1; do
		kill -0 $! || cat "$dir/log" >&2
		sleep 0.1
	done
fi
cd "$lab"
code=0
bash -ec "$script" "$argument" || code=$?
"$engine-compose" down
if [ "$engine" = docker ]; then
	kill %1
	wait %1
else
	podman rmi --all --force
fi
exit $code
