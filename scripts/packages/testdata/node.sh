# node.sh DIR PROGRAMS is a node of Kubernetes and its control plane. It is process 1, in mount
# and network namespaces of its own. It sees this machine's files and keeps its changes in memory.
# PROGRAMS is what scripts/control-plane.sh has made.
set -e
dir=$1 programs=$2 name=$(basename "$(dirname "$1")")
export PATH=$programs:$PATH:/usr/sbin:/sbin
ip link set lo up
ip link add node0 type bridge
ip addr add 192.0.2.1/24 dev node0
ip link set node0 up
ip route add default dev node0

mkdir "$dir/node" "$dir/data" "$dir/hosts"
mount -t tmpfs tmpfs "$dir/node"
root=$dir/node/root
mkdir "$dir/node/upper" "$dir/node/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/node/upper,workdir=$dir/node/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/mnt" "$root/etc/containerd"
mount --bind "$dir" "$root$dir"
cd "$root"
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
cp "$dir/config.toml" /etc/containerd/config.toml
mkdir /run/kube /run/sysctl
# The kubelet sets these: it must not set those of this machine.
for sysctl in kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes vm/overcommit_memory vm/panic_on_oom; do
	cat "/proc/sys/$sysctl" >"/run/sysctl/${sysctl##*/}"
	mount --bind "/run/sysctl/${sysctl##*/}" "/proc/sys/$sysctl"
done
for controller in /sys/fs/cgroup/*/; do
	mkdir "$controller$name" 2>/dev/null || true
done

# The installer calls `systemctl try-restart containerd`.
rm -f /usr/bin/systemctl
cat >/usr/bin/systemctl <<END
#!/bin/sh
echo "\$*" >>/run/restarts
old=\$(cat /run/containerd.pid)
kill "\$old"
until [ "\$(cat /run/containerd.pid)" != "\$old" ] && ctr --address $dir/socket version >/dev/null 2>&1; do sleep 0.1; done
END
chmod +x /usr/bin/systemctl
# daemon NAME COMMAND starts a program that starts again when it ends.
daemon() {
	local called=$1
	shift
	while :; do
		"$@" >>"$dir/$called.log" 2>&1 &
		echo $! >"/run/$called.pid"
		wait $! || sleep 0.5
	done &
}
daemon containerd containerd --config /etc/containerd/config.toml
daemon etcd etcd --data-dir /run/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
openssl genrsa -out /run/kube/accounts.key 2048 2>/dev/null
echo 'token,admin,admin,system:masters' >/run/kube/tokens
daemon apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address 192.0.2.1 --kubelet-preferred-address-types InternalIP --cert-dir /run/kube --allow-privileged \
	--authorization-mode AlwaysAllow --token-auth-file /run/kube/tokens --service-cluster-ip-range 203.0.113.0/24 \
	--service-account-issuer https://kubernetes.default.svc --service-account-key-file /run/kube/accounts.key --service-account-signing-key-file /run/kube/accounts.key
cat >/run/kube/config <<END
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
END
until kubectl --kubeconfig /run/kube/config get --raw /readyz >/dev/null 2>&1; do sleep 0.5; done
daemon controllers kube-controller-manager --kubeconfig /run/kube/config --leader-elect=false --root-ca-file /run/kube/apiserver.crt --service-account-private-key-file /run/kube/accounts.key
daemon scheduler kube-scheduler --kubeconfig /run/kube/config --leader-elect=false
# Names of pods are in files of this directory.
daemon dns dnsmasq --keep-in-foreground --no-resolv --no-hosts --hostsdir "$dir/hosts" --listen-address 192.0.2.1 --bind-interfaces --user=root --pid-file
: >/run/kube/resolv.conf
cat >/run/kube/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$name
clusterDNS: [192.0.2.1]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$dir/socket
evictionHard: {imagefs.available: 0%, memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%}
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
resolvConf: /run/kube/resolv.conf
END
daemon kubelet kubelet --config /run/kube/kubelet.yaml --kubeconfig /run/kube/config --hostname-override node --node-ip 192.0.2.1
wait
