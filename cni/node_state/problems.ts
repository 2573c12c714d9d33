import { formatAddress } from "../../kernel/ip/address.ts";
import { type DesiredBridge, subnetOf } from "./desired.ts";
import { stepText, strays } from "./difference.ts";
import type { ObservedBridge, Step } from "./observed.ts";

/** A part of the node's state that differs from what pods need. */
export interface Problem {
  /** The problem in words, and the way out. */
  readonly text: string;
  /** Whether pods have no network, or only a part of it. */
  readonly isCut: boolean;
}

/** The remaining steps of a bridge, and the reasons. */
export interface Unsettled {
  readonly remaining: readonly Step[];
  /** The kernel's refusals, in words. */
  readonly refused: readonly { readonly message: string }[];
  readonly observed: ObservedBridge;
}

const MOST_TEXTS = 3;

/**
 * Returns the problems of a bridge that remain after its repair, or that it was observed with, each with the way out.
 */
export function problemsOf(desired: DesiredBridge, { remaining, refused, observed }: Unsettled): readonly Problem[] {
  const { link } = observed;
  const { name, ports } = desired;
  if (link !== undefined && link.kind !== "bridge") {
    return [
      {
        text: `${name} is not a bridge (kind ${link.kind ?? "unknown"}): remove it (ip link delete ${name}), and the bridge is made again`,
        isCut: ports.size > 0,
      },
    ];
  }
  const reasons = [...new Set(refused.map(({ message }) => message))].slice(0, MOST_TEXTS);
  const why = reasons.length === 0 ? "" : ` (${reasons.join("; ")})`;
  const steps = remaining.filter(({ part }) => part !== "route");
  const texts = steps.slice(0, MOST_TEXTS).map(stepText).join("; ");
  const more = steps.length > MOST_TEXTS ? `, and ${steps.length - MOST_TEXTS} more` : "";
  return [
    ...(steps.length === 0
      ? []
      : [{ text: `bridge ${name}: could not ${texts}${more}${why}`, isCut: steps.some(isCutting) }]),
    ...(link === undefined ? [] : wayProblems(desired, observed, link.index)),
  ];
}

function wayProblems(desired: DesiredBridge, observed: ObservedBridge, index: number): readonly Problem[] {
  // If the bridge lacks the address that leads to a pod, only that is reported.
  const lost = strays(observed, index).filter((address) => {
    const subnet = subnetOf(desired, address);
    return subnet === undefined || observed.addresses.some((one) => one.address === subnet.address);
  });
  const [first] = lost;
  if (first === undefined) return [];
  const way = observed.ways.get(first);
  const where = way !== undefined && "link" in way ? `link ${way.link}` : `nowhere (${way?.error})`;
  const text = formatAddress(first);
  return [
    {
      text:
        `the node sends packets for ${lost.length} pod addresses, such as ${text}, to ${where} instead of bridge ${desired.name}: ` +
        `remove the route or rule that does it (ip route get ${text}; ip route show table all; ip rule)`,
      isCut: true,
    },
  ];
}

/** Whether pods lack some network until a step is done; the others only spare a longer or less safe way. */
export function isCutting(step: Step): boolean {
  if (step.type === "write-setting") return /\/(forwarding|disable_ipv6)$/.test(step.key);
  return step.part !== "bypass" && step.part !== "neighbour";
}
