import type { Family } from "../../kernel/ip/address.ts";
import type { Remark } from "../problems/check.ts";
import { type ProblemCode, severityOf } from "../problems/problem.ts";
import { TUNNEL } from "../routes/tunnel.ts";

/** Settings that belong to the administrator, and the links and families that they affect. */
export interface Surroundings {
  /** Values by key, without settings that the kernel does not have. */
  readonly settings: ReadonlyMap<string, string>;
  /** The links of the node's default routes. */
  readonly uplinks: readonly string[];
  /** The families of the pods; none without pods. */
  readonly families: readonly Family[];
}

/** The checks of these settings. */
export type SettingCode = Extract<ProblemCode, "forwarding" | "ipv6" | "redirects" | "reverse-path">;

/** A setting and its effect on pods. */
export interface SettingProblem {
  readonly code: SettingCode;
  readonly remark: Remark;
}

const IPV4_FORWARDING = "net/ipv4/ip_forward";
const IPV4_REDIRECTS = "net/ipv4/conf/all/send_redirects";
const IPV6_FORWARDING = "net/ipv6/conf/all/forwarding";
const IPV6_OFF = "net/ipv6/conf/all/disable_ipv6";
const STRICT = 1;

/**
 * Returns the keys of the settings that the daemon checks by {@link surroundingProblems}: all but the tunnel's own,
 * which its routes set and report.
 */
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
 * Returns the administrator's settings that keep pods' packets from getting through, for the status and for the doctor.
 * They are only reported, never changed: whether a node forwards is a decision about all of its links.
 */
export function surroundingProblems({ settings, uplinks, families }: Surroundings): readonly SettingProblem[] {
  const problems: SettingProblem[] = [];
  const report = (code: SettingCode, key: string, bad: string, good: string, why: string): void => {
    if (settings.get(key) !== bad) return;
    const way = `sysctl -w ${dotted(key)}=${good}, and in /etc/sysctl.d whatever sets it to ${bad}`;
    problems.push({ code, remark: { severity: severityOf(code), what: `${dotted(key)} = ${bad}`, why, way } });
  };
  if (families.includes(4)) {
    report("forwarding", IPV4_FORWARDING, "0", "1", "the node does not forward IPv4 of pods");
    for (const name of settings.get(IPV4_FORWARDING) === "0" ? [] : uplinks) {
      report("forwarding", `net/ipv4/conf/${name}/forwarding`, "0", "1", `nothing from ${name} gets to pods by IPv4`);
    }
    problems.push(...strictLinks(settings, uplinks));
    report("redirects", IPV4_REDIRECTS, "1", "0", "redirects lead packets of pods off the routed path");
  }
  if (families.includes(6)) {
    report("forwarding", IPV6_FORWARDING, "0", "1", "the node forwards no IPv6 of pods");
    report("ipv6", IPV6_OFF, "1", "0", "links of the node are made without IPv6");
  }
  return problems;
}

/** Reports a strict check of the tunnel, and of uplinks if there are several: the larger value holds (IN_DEV_MAXCONF). */
function strictLinks(settings: Surroundings["settings"], uplinks: readonly string[]): readonly SettingProblem[] {
  const all = settings.get(sourceCheckOf("all")) ?? "0";
  return [TUNNEL.name, ...(uplinks.length < 2 ? [] : uplinks)].flatMap((name): readonly SettingProblem[] => {
    const own = settings.get(sourceCheckOf(name));
    if (own === undefined || Math.max(Number(all), Number(own)) !== STRICT) return [];
    return [
      {
        code: "reverse-path",
        remark: {
          severity: "warning",
          what: `the reverse-path filter of ${name} is strict (all ${all}, ${name} ${own})`,
          why: `packets that arrive by ${name} and would be answered by another link are dropped without a trace`,
          way: `sysctl -w ${dotted(sourceCheckOf(name))}=2`,
        },
      },
    ];
  });
}

/** Returns a key as sysctl(8) has it, with dots instead of slashes; the dots of a link's name become slashes. */
export function dotted(key: string): string {
  return key.replaceAll(/[./]/g, (sign) => (sign === "/" ? "." : "/"));
}

function sourceCheckOf(name: string): string {
  return `net/ipv4/conf/${name}/rp_filter`;
}
