import type { Problem } from "../../cni/node_state/problems.ts";
import type { Family } from "../../kernel/ip/address.ts";

/** Settings that belong to the administrator, and whom they concern. */
export interface Surroundings {
  /** Values by their keys; one that the kernel does not have is not in it. */
  readonly settings: ReadonlyMap<string, string>;
  /** The links of the node's default routes. */
  readonly uplinks: readonly string[];
  /** Of the pods that there are; none where there are no pods. */
  readonly families: readonly Family[];
}

const IPV4_FORWARDING = "net/ipv4/ip_forward";
const IPV4_REDIRECTS = "net/ipv4/conf/all/send_redirects";
const IPV6_FORWARDING = "net/ipv6/conf/all/forwarding";
const IPV6_OFF = "net/ipv6/conf/all/disable_ipv6";
const STRICT = 1;

/** The keys of the settings that {@link surroundingProblems} looks at. */
export function surroundingKeys(uplinks: readonly string[]): readonly string[] {
  return [
    IPV4_FORWARDING,
    IPV4_REDIRECTS,
    IPV6_FORWARDING,
    IPV6_OFF,
    sourceCheckOf("all"),
    ...uplinks.flatMap((name) => [`net/ipv4/conf/${name}/forwarding`, sourceCheckOf(name)]),
  ];
}

/**
 * Settings of the administrator's that keep packets of pods from getting through, each with the way out. They are reported and never
 * changed: that a node forwards is a decision about all of its links.
 */
export function surroundingProblems({ settings, uplinks, families }: Surroundings): readonly Problem[] {
  const problems: Problem[] = [];
  const report = (key: string, isCut: boolean, what: string, value: string): void => {
    const dotted = key.replaceAll("/", ".");
    const text = `${dotted} is ${settings.get(key)}: ${what}; run sysctl -w ${dotted}=${value}, and set it in /etc/sysctl.d`;
    problems.push({ text, isCut });
  };
  if (families.includes(4)) {
    const isOff = settings.get(IPV4_FORWARDING) === "0";
    if (isOff) report(IPV4_FORWARDING, true, "the node does not forward IPv4 of pods", "1");
    for (const name of isOff ? [] : uplinks) {
      const key = `net/ipv4/conf/${name}/forwarding`;
      if (settings.get(key) === "0") report(key, true, `nothing from ${name} gets to pods by IPv4`, "1");
    }
    for (const name of strictUplinks(settings, uplinks)) {
      report(sourceCheckOf(name), false, `what comes by ${name} and is answered by another uplink is dropped`, "2");
    }
    if (settings.get(IPV4_REDIRECTS) === "1") {
      report(IPV4_REDIRECTS, false, "the node tells pods of shorter ways, which leave the routed path", "0");
    }
  }
  if (families.includes(6)) {
    if (settings.get(IPV6_FORWARDING) === "0") report(IPV6_FORWARDING, true, "the node forwards no IPv6 of pods", "1");
    if (settings.get(IPV6_OFF) === "1") report(IPV6_OFF, true, "links of the node are made without IPv6", "0");
  }
  return problems;
}

/** Of several uplinks those that are checked strictly: the larger value is in effect (IN_DEV_MAXCONF). */
function strictUplinks(settings: Surroundings["settings"], uplinks: readonly string[]): readonly string[] {
  if (uplinks.length < 2) return [];
  const all = Number(settings.get(sourceCheckOf("all")) ?? 0);
  return uplinks.filter((name) => Math.max(all, Number(settings.get(sourceCheckOf(name)) ?? 0)) === STRICT);
}

function sourceCheckOf(name: string): string {
  return `net/ipv4/conf/${name}/rp_filter`;
}
