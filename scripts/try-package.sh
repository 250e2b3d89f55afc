#!/usr/bin/env bash
# Tries the Debian package where it belongs: in a fresh Debian system with systemd as its first process. Needs root, mmdebstrap
# and a Debian mirror; about three minutes. The system lives in namespaces and a folder of its own, and goes with them.
#
#   scripts/try-package.sh PACKAGE        exits with 0 when each step did what it should
#
# Steps: install, start, SIGKILL, a daemon that stands still (the watchdog), the interface goes and comes back, upgrade, both sides,
# `tandem off`, a split site's origin and broker by the package's examples, remove, purge.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo 'try-package: mmdebstrap is missing: apt-get install mmdebstrap' >&2; exit 3; }
package=$(realpath "$1")
suite=${DEBIAN_SUITE:-bookworm}
base=$(mktemp -d)
root=$base/root
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=${cgroups:?no cgroup2 file system is mounted}/tandem-try-package

clean_up() {
    [ -z "${holder:-}" ] || { kill -KILL "$holder" && wait "$holder"; } 2>/dev/null || true
    # What ran in the group is gone with its first process, but not at once.
    for _ in $(seq 50); do
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -d "$group" ] || break
        sleep 0.1
    done
    rm -rf --one-file-system "$base"
}
trap clean_up EXIT

echo "a fresh $suite, with systemd" >&2
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,udev,iptables,iproute2,openssl,passwd,procps "$suite" "$root"
cp "$package" "$root/root/tandem.deb"
# What would touch the machine rather than its namespaces.
for unit in systemd-udev-trigger.service systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service \
    systemd-tmpfiles-setup-dev.service systemd-journald-audit.socket getty.target console-getty.service dev-hugepages.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done

cat >"$root/root/steps" <<'STEPS'
#!/bin/bash
set -euo pipefail
unit=tandem-client-side@link0
failed=0
show() { systemctl show --property "$1" --value "$unit"; }
rules() { iptables-save | grep --count tandem || true; }
# Waits until the given words hold, for at most 60 s, and says how it ended.
expect() {
    local what=$1 i
    shift
    for ((i = 0; i < 600; i++)); do
        if "$@" 2>/dev/null; then
            printf 'ok      %s\n' "$what"
            return
        fi
        sleep 0.1
    done
    printf 'FAILED  %s\n' "$what"
    systemctl status --no-pager --full "$unit" || true
    failed=1
}
active() { [ "$(systemctl is-active "$1")" = active ]; }
inactive() { ! active "$1"; }
is_another_process() { [ "$(show MainPID)" != 0 ] && [ "$(show MainPID)" != "$1" ] && active "$unit" && [ "$(rules)" -gt 0 ]; }
answers() { tandem status >/dev/null; }
no_rules() { [ "$(rules)" = 0 ]; }
listens() { : <"/dev/tcp/127.0.0.1/$1"; }
interface() {
    ip link add link0 type veth peer name link1
    ip link set link0 up
    ip link set link1 up
}

dpkg --install /root/tandem.deb >/dev/null
expect 'installed, and nothing started' inactive "$unit"
tandem keygen /etc/tandem/key 2>/dev/null
interface
systemctl enable --quiet --now "$unit" 2>/dev/null || true
expect 'started, with rules' is_another_process 0
pid=$(show MainPID)
expect 'runs as its own user' [ "$(ps -o user= -p "$pid")" = tandem ]
expect 'status answers' answers
kill -KILL "$pid"
expect 'killed: started anew' is_another_process "$pid"
pid=$(show MainPID)
kill -STOP "$pid"
expect 'stands still: started anew by the watchdog' is_another_process "$pid"
ip link delete link0
expect 'interface gone: stopped' inactive "$unit"
expect 'interface gone: no rules left' no_rules
interface
expect 'interface back: started' is_another_process 0
pid=$(show MainPID)
dpkg --install /root/tandem.deb >/dev/null
expect 'upgraded: started anew' is_another_process "$pid"
systemctl start tandem-server-side@link1
expect 'the other side beside it' active tandem-server-side@link1
tandem off >/dev/null
expect 'tandem off: both stopped' inactive "$unit"
expect 'tandem off: no rules left' no_rules
examples=/usr/share/doc/tandem/examples
"$examples/trial-certificate" split.test /etc/tandem 2>/dev/null
chgrp tandem /etc/tandem/site.key
chmod 640 /etc/tandem/site.key
# No name server, and any key: nobody joins here.
sed -e '/^\[dns\]/,$d' -e 's/www\.example\.org/split.test/' -e "s/^key = .*/key = \"$(printf '0%.0s' {1..64})\"/" \
    -e 's|^#roots = .*|roots = "/etc/tandem/trial-ca.pem"|' "$examples/broker.toml" >/etc/tandem/broker.toml
systemctl start tandem-split-origin tandem-split-broker
expect "a split site's origin listens" listens 7443
expect 'its broker listens' listens 8470
systemctl stop tandem-split-origin tandem-split-broker
rm /etc/tandem/site.key /etc/tandem/site.pem /etc/tandem/trial-ca.pem /etc/tandem/broker.toml
systemctl start "$unit" tandem-server-side@link1
expect 'started once more' is_another_process 0
dpkg --remove tandem >/dev/null 2>&1
expect 'removed: no rules left' no_rules
expect 'removed: store and key are kept' [ -d /var/lib/tandem/client-side-link0 -a -e /etc/tandem/key ]
dpkg --purge tandem >/dev/null 2>&1
gone() { [ ! -e /etc/tandem ] && [ ! -e /var/lib/tandem ] && ! getent passwd tandem >/dev/null; }
expect 'purged: nothing is left' gone
exit "$failed"
STEPS

# A first process of its own namespaces; systemd takes it for a container, so it leaves the machine's clock, modules and limits alone.
cat >"$base/enter" <<'ENTER'
#!/bin/bash
set -euo pipefail
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
hostname tandem-try
ip link set lo up
cd "$root"
mkdir before
pivot_root . before
umount -l /before
# Credentials reach a service by a mount that has to be seen outside of its own namespace.
mount --make-rshared /
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /sbin/init --log-target=journal
ENTER

mkdir "$group"
(
    echo "$BASHPID" >"$group/cgroup.procs"
    exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child bash "$base/enter" "$root"
) &
holder=$!
# The first process of the new namespaces is the only child of the holder.
init=
for _ in $(seq 100); do
    init=$(pgrep --parent "$holder" --full sbin/init || true)
    [ -z "$init" ] || break
    sleep 0.1
done
[ -n "$init" ] || { echo 'systemd did not start' >&2; exit 1; }
inside() {
    nsenter --target "$init" --mount --pid --net --uts --ipc --cgroup -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
for _ in $(seq 300); do
    case $(inside systemctl is-system-running 2>/dev/null || true) in running | degraded) break ;; esac
    sleep 0.1
done
inside bash /root/steps
