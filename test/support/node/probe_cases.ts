import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import type { Severity } from "../../../policyd/problems/check.ts";
import type { ProbeFlow } from "../../../cli/node/doctor/probe/flow.ts";
import type { Loss } from "../../../cli/node/doctor/probe/loss.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import type { TraceEvent } from "../../../kernel/nftables/decode/trace.ts";

/** Returns a flow by TCP from a probe pod. */
export function probeFlow(changes: Partial<ProbeFlow> = {}): ProbeFlow {
  return {
    need: "pod to pod",
    protocol: "tcp",
    from: "pod",
    source: parseAddress("10.244.1.7"),
    destination: parseAddress("10.244.1.8"),
    port: 8080,
    arrives: "answered",
    length: 64,
    isTunnelled: false,
    ...changes,
  };
}

/** Returns an event of the kernel's trace: a policy that accepts a packet. */
export function traceEvent(table: string, chain: string, changes: Partial<TraceEvent> = {}): TraceEvent {
  const [family = "", name = ""] = table.split(" ");
  const none = { rule: undefined, isDrop: false, header: undefined, output: undefined };
  return { id: 1, family, table: name, chain, ...none, ...changes };
}

/** Returns the loss of a first packet by a rule or a policy. */
export const dropped = (table: string, chain: string, changes: Partial<TraceEvent> = {}): Loss => ({
  kind: "dropped",
  packet: "first",
  hook: "forward",
  by: traceEvent(table, chain, { isDrop: true, ...changes }),
});
/** Returns the loss of a first packet without a drop. */
export const vanished = (changes: Partial<Extract<Loss, { readonly kind: "vanished" }>> = {}): Loss => ({
  kind: "vanished",
  packet: "first",
  last: undefined,
  output: undefined,
  counted: [],
  ...changes,
});

/** Returns the facts of a node where a probe has lost this packet. */
export function probedFacts(loss: Loss, flow: Partial<ProbeFlow> = {}): Partial<NodeFacts> {
  return { probed: { value: { lost: [{ flow: probeFlow(flow), loss }], failure: undefined } } };
}

/** The place of a packet before the table filter of iptables. */
export const INSIDE = { family: "inet", hook: "forward", after: -99, before: 1 } as const;
const LEFT = { family: "inet", hook: "postrouting", after: 0x7fff_ffff, before: undefined } as const;

/** Cases of what a probe finds: check, facts, severity and message. */
export const PROBE_CASES: readonly (readonly [string, Partial<NodeFacts>, Severity, RegExp])[] = [
  [
    "probe",
    probedFacts(dropped("ip filter", "FORWARD")),
    "error",
    /chain ip filter FORWARD, hook forward, drops .* \(iptables-nft\): pod to pod \(IPv4 TCP\)/,
  ],
  [
    "probe",
    probedFacts(dropped("inet drawbridge-policy", "in-7", { rule: 9n }), { need: "pod to a Service", port: 443 }),
    "info",
    /chain inet drawbridge-policy in-7, .*: pod to a Service \(IPv4 TCP 443\)/,
  ],
  [
    "probe",
    probedFacts(dropped("inet drawbridge-policy", "in-7", { rule: 9n })),
    "error",
    /chain inet drawbridge-policy in-7/,
  ],
  ["probe", probedFacts(vanished()), "error", /lost before the first hook of the node: pod to pod/],
  ["probe", probedFacts(vanished({ last: INSIDE })), "error", /in hook forward of inet between priorities -99 and 1:/],
  ["probe", probedFacts(vanished({ last: LEFT, output: 4 })), "error", /leave by dbv\w+ and do not get to the pod/],
  [
    "probe",
    probedFacts(vanished({ last: LEFT, output: 2 }), { need: "pod to another node" }),
    "warning",
    /leave by eth0 and are not answered: pod to another node \(IPv4 TCP to 10\.244\.1\.8\)/,
  ],
  [
    "probe",
    probedFacts(vanished({ last: { ...LEFT, hook: "prerouting" }, counted: ["Ip FragFails"] })),
    "warning",
    /lost after hook prerouting of inet/,
  ],
  [
    "probe",
    { probed: { value: { lost: [], failure: "/opt/cni/bin/drawbridge ADD: no address (code 11)" } } },
    "error",
    /a probe pod cannot be attached: .*no address/,
  ],
];
