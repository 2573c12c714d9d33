import type { Request } from "../../netlink/message.ts";
import type { Chain, TableReference } from "./object.ts";
import type { Rule } from "./statement.ts";

/** Makes a rule's messages. @param nextSetId returns a number for each anonymous set that is unique within the batch */
export type RuleEncoder = (
  table: TableReference,
  chain: string,
  rule: Rule,
  nextSetId: () => number,
) => readonly Request[];

/** Distinct from the numbers of a batch, which start at 1. */
const FIRST_SET_ID = 2 ** 30;

/**
 * Rules encoded for the kernel before they are needed. A first batch has more than a thousand rules, and everything
 * that waits for it would wait for the encoding, too.
 */
export class PreparedRules {
  readonly #encode: RuleEncoder;
  readonly #chains = new Map<string, Map<Rule, readonly Request[]>>();
  #lastSetId = FIRST_SET_ID;

  constructor(encode: RuleEncoder) {
    this.#encode = encode;
  }

  /** @throws DrawbridgeError ERR_NFTABLES_VALUE when a rule is invalid */
  prepare(table: TableReference, { name, rules }: Pick<Chain, "name" | "rules">): void {
    if (rules.length === 0) return;
    const prepared = new Map<Rule, readonly Request[]>();
    for (const rule of rules)
      prepared.set(
        rule,
        this.#encode(table, name, rule, () => ++this.#lastSetId),
      );
    this.#chains.set(chainKey(table, name), prepared);
  }

  /** Returns the prepared messages of a rule, only once, because they are retained only for a first batch. */
  take(table: TableReference, chain: string, rule: Rule): readonly Request[] | undefined {
    if (this.#chains.size === 0) return undefined;
    const key = chainKey(table, chain);
    const rules = this.#chains.get(key);
    const requests = rules?.get(rule);
    if (rules?.delete(rule) === true && rules.size === 0) this.#chains.delete(key);
    return requests;
  }
}

function chainKey({ family, name }: TableReference, chain: string): string {
  return `${family} ${name} ${chain}`;
}
