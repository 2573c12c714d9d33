import type { RuleCode } from "./rule_code.ts";
import type { Statement } from "../model/statement.ts";

/** NFT_REJECT_* */
const RejectType = { ICMP: 0, TCP_RESET: 1, ANY_ICMP: 2 } as const;

/** A reject statement for the kernel, and its text in nft. */
interface Rejection {
  readonly type: number;
  readonly code: number;
  readonly text: string;
}

/** "Port unreachable" and "administratively prohibited" of each protocol. */
const replies = {
  ip: { word: "icmp", port: 3, prohibited: 13 },
  ip6: { word: "icmpv6", port: 4, prohibited: 1 },
} as const;

/**
 * Returns the form of a reject statement after the preceding statements of its rule.
 *
 * nft reads `reject` as the reply of the rule's own protocol, if it has one, and lists it in that form.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when nft would list another form
 */
export function rejectionOf(
  code: RuleCode,
  reply: Extract<Statement, { readonly kind: "reject" }>["reply"],
): Rejection {
  const own = code.family === "ip" || code.family === "ip6" ? replies[code.family] : undefined;
  if (reply === "tcp reset") {
    const test = code.isTcp || own !== undefined ? "" : "meta l4proto tcp ";
    return { type: RejectType.TCP_RESET, code: 0, text: `${test}reject with tcp reset` };
  }
  if (reply === "icmpx admin-prohibited") {
    return own === undefined
      ? { type: RejectType.ANY_ICMP, code: 3, text: "reject with icmpx admin-prohibited" }
      : { type: RejectType.ICMP, code: own.prohibited, text: `reject with ${own.word} admin-prohibited` };
  }
  const network = code.networkForReply("reject");
  if (network === undefined) return { type: RejectType.ANY_ICMP, code: 1, text: "reject" };
  const { word, port } = replies[network];
  return { type: RejectType.ICMP, code: port, text: own ? "reject" : `reject with ${word} port-unreachable` };
}
