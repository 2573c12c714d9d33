import { seen } from "../diagnose.ts";
import type { NodeFacts } from "../facts.ts";
import type { Check, Remark } from "../finding.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";

const STRICT = 1;
const NEARLY_FULL = 0.8;
const FULL = 0.95;

export const ipv6: Check = {
  id: "ipv6",
  summary: "IPv6 is on, or the node is known to do without.",
  needs: [],
  examine: ({ settings }) => {
    const key = "net/ipv6/conf/all/disable_ipv6";
    const value = settings.get(key);
    if (value === "0") return [];
    return [
      {
        severity: "info",
        what: value === undefined ? "the kernel has no IPv6" : `${dotted(key)} = ${value}: IPv6 is off`,
        why: "pods of this node have only IPv4; with a pod CIDR of IPv6 no pod could be attached",
        way:
          value === undefined
            ? "boot without ipv6.disable=1, or give the node no IPv6 pod CIDR"
            : `sysctl -w ${dotted(key)}=0, or give the node no IPv6 pod CIDR`,
      },
    ];
  },
};

export const forwarding: Check = {
  id: "forwarding",
  summary: "The node forwards packets in each family.",
  needs: [],
  examine: ({ settings, place }) =>
    ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", `net/ipv4/conf/${place.bridge}/forwarding`]
      .filter((key) => settings.get(key) === "0" && !(key.startsWith("net/ipv6") && isOff6(settings)))
      .map((key) => ({
        severity: "error",
        what: `${dotted(key)} = 0`,
        why: "nothing gets from one pod to another, nor out of the node",
        way: `sysctl -w ${dotted(key)}=1, and in /etc/sysctl.d/ whatever sets it to 0 (grep -r forward /etc/sysctl.conf /etc/sysctl.d)`,
      })),
};

export const reversePath: Check = {
  id: "reverse-path",
  summary: "The reverse-path filter drops nothing that comes another way than answers go.",
  needs: ["links", "routes"],
  examine: (facts) => {
    const { settings } = facts;
    const names = new Set([TUNNEL.name, ...severalUplinks(facts)]);
    const all = Number(settings.get("net/ipv4/conf/all/rp_filter") ?? 0);
    return [...names].flatMap((name): readonly Remark[] => {
      const own = settings.get(`net/ipv4/conf/${name}/rp_filter`);
      // The kernel uses the larger one (IN_DEV_RPFILTER).
      if (own === undefined || Math.max(all, Number(own)) !== STRICT) return [];
      return [
        {
          severity: "warning",
          what: `the reverse-path filter of ${name} is strict (all ${all}, ${name} ${own})`,
          why: "packets from an address that the node would answer through another link are dropped without a trace",
          way: `sysctl -w net.ipv4.conf.${name.replaceAll(".", "/")}.rp_filter=2`,
        },
      ];
    });
  },
};

export const redirects: Check = {
  id: "redirects",
  summary: "The node sends pods no ICMP redirects.",
  needs: ["links"],
  examine: ({ settings, place, links }) => {
    if (!(seen(links) ?? []).some(({ name }) => name === place.bridge)) return [];
    const keys = ["all", place.bridge].map((name) => `net/ipv4/conf/${name}/send_redirects`);
    return keys
      .filter((key) => settings.get(key) === "1")
      .map((key) => ({
        severity: "warning",
        what: `${dotted(key)} = 1`,
        why: "a pod that follows a redirect leaves the routed path, and its connections stop; policyd's tables drop them while they are loaded",
        way: `sysctl -w ${dotted(key)}=0`,
      }));
  },
};

export const localhost: Check = {
  id: "localhost",
  summary: "No other program has opened the node's localhost to its links.",
  needs: [],
  examine: ({ settings, place }) =>
    ["all", place.bridge]
      .map((name) => `net/ipv4/conf/${name}/route_localnet`)
      .filter((key) => settings.get(key) === "1")
      .map((key) => ({
        severity: "info",
        what: `${dotted(key)} = 1`,
        why: "the kernel delivers packets from links to 127.0.0.0/8 (CVE-2020-8558), unless rules drop them; Drawbridge's host ports on localhost do not need it",
        way: `sysctl -w ${dotted(key)}=0, unless kube-proxy's iptables mode or portmap is still used here`,
      })),
};

export const connectionTracking: Check = {
  id: "conntrack",
  summary: "The table of connections has room.",
  needs: [],
  examine: ({ settings }) => {
    const count = Number(settings.get("net/netfilter/nf_conntrack_count") ?? 0);
    const most = Number(settings.get("net/netfilter/nf_conntrack_max") ?? 0);
    if (most === 0 || count < most * NEARLY_FULL) return [];
    return [
      {
        severity: count < most * FULL ? "warning" : "error",
        what: `${count} of ${most} connections are tracked`,
        why: "when the table is full new connections are dropped (nf_conntrack: table full, dropping packet)",
        way: `sysctl -w net.netfilter.nf_conntrack_max=${most * 2}; who has them: conntrack -L | awk '{print $4, $5}' | sort | uniq -c | sort -n`,
      },
    ];
  },
};

export const bridgeNetfilter: Check = {
  id: "bridge-netfilter",
  summary: "br_netfilter treats both families alike, or is not there.",
  needs: [],
  examine: ({ settings }) => {
    const four = settings.get("net/bridge/bridge-nf-call-iptables");
    const six = settings.get("net/bridge/bridge-nf-call-ip6tables");
    const remarks: Remark[] = [];
    if (four !== six) {
      remarks.push({
        severity: "warning",
        what: `net.bridge.bridge-nf-call-iptables = ${four}, net.bridge.bridge-nf-call-ip6tables = ${six}`,
        why: "translated packets between pods of this node are bridged in one family and routed in the other; Drawbridge serves both, rules of others see only one",
        way: `sysctl -w net.bridge.bridge-nf-call-ip6tables=${four ?? 1}`,
      });
    }
    if (settings.get("net/bridge/bridge-nf-filter-vlan-tagged") === "1") {
      remarks.push({
        severity: "info",
        what: "net.bridge.bridge-nf-filter-vlan-tagged = 1",
        why: "frames with a VLAN tag of pods pass the IP hooks, too; the guard drops them before",
        way: "sysctl -w net.bridge.bridge-nf-filter-vlan-tagged=0 unless another program needs it",
      });
    }
    return remarks;
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

/** Returns the links with a default route, where there are several. */
function severalUplinks({ routes, links }: NodeFacts): readonly string[] {
  const indexes = new Set(
    (seen(routes) ?? [])
      .filter(({ destination, family }) => destination === undefined && family === 4)
      .flatMap(({ outputInterface }) => outputInterface ?? []),
  );
  if (indexes.size < 2) return [];
  return (seen(links) ?? []).filter(({ index }) => indexes.has(index)).map(({ name }) => name);
}

function isOff6(settings: NodeFacts["settings"]): boolean {
  return settings.get("net/ipv6/conf/all/disable_ipv6") !== "0";
}

/** Returns a key as sysctl(8) has it, with dots instead of slashes, unless a link's name has dots. */
function dotted(key: string): string {
  return key.includes(".") ? key : key.replaceAll("/", ".");
}
