import type { Problem } from "../../cni/node_state/problems.ts";
import type { Family } from "../../kernel/ip/address.ts";

/** Settings that belong to the administrator, and the links and families that they affect. */
export interface Surroundings {
  /** Values by key, without settings that the kernel does not have. */
  readonly settings: ReadonlyMap<string, string>;
  /** The links of the node's default routes. */
  readonly uplinks: readonly string[];
  /** The families of the pods; none without pods. */
  readonly families: readonly Family[];
}

const IPV4_FORWARDING = "net/ipv4/ip_forward";
const IPV4_REDIRECTS = "net/ipv4/conf/all/send_redirects";
const IPV6_FORWARDING = "net/ipv6/conf/all/forwarding";
const IPV6_OFF = "net/ipv6/conf/all/disable_ipv6";
const STRICT = 1;

/** Returns the keys of the settings that {@link surroundingProblems} checks. */
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
 * Returns the administrator's settings that keep pods' packets from getting through, each with the way out. They are
 * only reported, never changed: whether a node forwards is a decision about all of its links.
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
      report(
        sourceCheckOf(name),
        false,
        `packets that arrive by ${name} and are answered by another uplink are dropped`,
        "2",
      );
    }
    if (settings.get(IPV4_REDIRECTS) === "1") {
      report(IPV4_REDIRECTS, false, "the node sends redirects to pods, which lead packets off the routed path", "0");
    }
  }
  if (families.includes(6)) {
    if (settings.get(IPV6_FORWARDING) === "0") report(IPV6_FORWARDING, true, "the node forwards no IPv6 of pods", "1");
    if (settings.get(IPV6_OFF) === "1") report(IPV6_OFF, true, "links of the node are made without IPv6", "0");
  }
  return problems;
}

/** Returns the uplinks, if there are several, with a strict check: the larger value is in effect (IN_DEV_MAXCONF). */
function strictUplinks(settings: Surroundings["settings"], uplinks: readonly string[]): readonly string[] {
  if (uplinks.length < 2) return [];
  const all = Number(settings.get(sourceCheckOf("all")) ?? 0);
  return uplinks.filter((name) => Math.max(all, Number(settings.get(sourceCheckOf(name)) ?? 0)) === STRICT);
}

function sourceCheckOf(name: string): string {
  return `net/ipv4/conf/${name}/rp_filter`;
}
