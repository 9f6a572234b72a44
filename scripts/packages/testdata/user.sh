# user.sh DIR CMD...: runs CMD as an ordinary user with DIR as the home directory. The user has
# a range of ids for user namespaces, and is known in this mount namespace only. DIR belongs to the
# user already.
set -e
mount --make-rprivate /
mount -t tmpfs tmp /mnt
cp /etc/passwd /etc/group /mnt/
echo "gorxe-test:x:54321:54321::$1:/bin/sh" >> /mnt/passwd
echo 'gorxe-test:x:54321:' >> /mnt/group
echo 'gorxe-test:1000000:65536' > /mnt/ids
mkdir /mnt/run
chown 54321:54321 /mnt/run
touch /etc/subuid /etc/subgid
for file in passwd group; do mount --bind "/mnt/$file" "/etc/$file"; done
for file in subuid subgid; do mount --bind /mnt/ids "/etc/$file"; done
mount --make-rshared /
export HOME="$1" XDG_RUNTIME_DIR=/mnt/run
cd "$1"
shift
exec setpriv --reuid 54321 --regid 54321 --init-groups "$@"
