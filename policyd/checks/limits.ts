import { type Check, type Remark, seen } from "../problems/check.ts";

const NEARLY_FULL = 0.8;
const FULL = 0.95;

export const connectionTracking: Check = {
  id: "conntrack",
  summary: "The table of connections has room.",
  needs: [],
  examine: ({ settings }) => {
    const count = Number(settings.get("net/netfilter/nf_conntrack_count") ?? 0);
    const most = Number(settings.get("net/netfilter/nf_conntrack_max") ?? 0);
    if (most === 0 || count < most * NEARLY_FULL) return [];
    const isFull = count >= most * FULL;
    return [
      {
        severity: isFull ? "error" : "warning",
        what: `${isFull ? "over 95 %" : "over 80 %"} of ${most} connections are tracked`,
        why: "when the table is full new connections are dropped (nf_conntrack: table full, dropping packet)",
        way: `sysctl -w net.netfilter.nf_conntrack_max=${most * 2}; who has them: conntrack -L | awk '{print $4, $5}' | sort | uniq -c | sort -n`,
      },
    ];
  },
};

/** No release of Drawbridge is older than this. */
const EARLIEST = Date.UTC(2026, 0, 1);

export const clock: Check = {
  id: "clock",
  summary: "The clock is right enough for certificates, and the boot has an id.",
  needs: ["bootId"],
  examine: ({ now, bootId }) => {
    const remarks: Remark[] = [];
    if (now < EARLIEST) {
      remarks.push({
        severity: "error",
        what: `the clock says ${new Date(now).toISOString()}`,
        why: "certificates of the API server count as not valid yet",
        way: "timedatectl set-ntp true, or date -s with the time",
      });
    }
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(seen(bootId) ?? "")) {
      remarks.push({
        severity: "error",
        what: `/proc/sys/kernel/random/boot_id is ${JSON.stringify((seen(bootId) ?? "").slice(0, 40))}`,
        why: "nobody can tell which addresses were reserved before the last reboot",
        way: "mount -t proc proc /proc",
      });
    }
    return remarks;
  },
};
