#!/bin/bash
# The guest's first process: mounts what tests expect, and runs the files that the kernel's command line names.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir -p /run/netns
# Tests mount their own on it.
touch /etc/resolv.conf
ip link set lo up
modprobe -a br_netfilter sctp wireguard 8021q 2>/dev/null
ulimit -n 65536
# As systemd has it for services; before 5.11 the tables of BPF programs count.
ulimit -l 8192
# A process of Node leaves compiled scripts, and TypeScript without its types, to the next.
export NODE_COMPILE_CACHE=/root/compiled
cd /drawbridge
if grep -q drawbridge.modprobe=forbidden /proc/cmdline; then
  # The list for nodes where nothing may load modules.
  modprobe -a $(sed -n '/Where nothing may load modules/,/^\*/p' docs/kernels.md | grep -o '`[a-z0-9_]*`' | tr -d '`')
  echo 1 >/proc/sys/kernel/modules_disabled
fi
echo "KERNELS up $(cut -d' ' -f1 /proc/uptime)"
node test/kernels/guest/main.ts </dev/null
echo b >/proc/sysrq-trigger
