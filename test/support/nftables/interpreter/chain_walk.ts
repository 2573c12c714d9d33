import type { Chain } from "../../../../kernel/nftables/model/object.ts";
import type { Rule, Statement } from "../../../../kernel/nftables/model/statement.ts";
import type { Scope } from "./expression.ts";
import { carryOut, type Effect } from "./statement.ts";
import type { Translation } from "./translation.ts";

/** The decision of a base chain. `rule` names the rule that made it, undefined for the chain's policy. */
export interface Decision {
  readonly kind: "accept" | "drop" | "reject" | "translate";
  readonly rule: string | undefined;
  readonly reply?: Extract<Statement, { readonly kind: "reject" }>["reply"];
  readonly translation?: Translation;
}

type Decisive = Exclude<Effect, { readonly kind: "next" } | { readonly kind: "break" }>;

/** NFT_JUMP_STACK_SIZE: the kernel refuses to load deeper jumps. */
const DEEPEST = 16;

/** Walks a base chain and the chains that it leads to; after the last rule the chain's policy decides. */
export function walkBaseChain(scope: Scope, chain: Chain): Decision {
  return walkChain(scope, chain, 0) ?? { kind: chain.base?.policy ?? "accept", rule: undefined };
}

/** @returns undefined when the chain ends or returns without a decision */
function walkChain(scope: Scope, chain: Chain, depth: number): Decision | undefined {
  if (depth > DEEPEST) throw new Error(`chain ${chain.name}: more than ${DEEPEST} jumps`);
  for (const rule of chain.rules) {
    const effect = walkRule(scope, chain, rule);
    if (effect === undefined) continue;
    const name = scope.table.ruleName(chain, rule);
    if (effect.kind === "reject") return { kind: "reject", rule: name, reply: effect.reply };
    if (effect.kind === "translate") return { kind: "translate", rule: name, translation: effect.translation };
    const { verdict } = effect;
    if (verdict.kind === "accept" || verdict.kind === "drop") return { kind: verdict.kind, rule: name };
    if (verdict.kind === "return") return undefined;
    if ("chain" in verdict) {
      const decision = walkChain(scope, scope.table.chain(verdict.chain), depth + (verdict.kind === "jump" ? 1 : 0));
      // The target of a goto replaces the rest of this chain.
      if (decision !== undefined || verdict.kind === "goto") return decision;
    }
  }
  return undefined;
}

/** @returns undefined when the rule decides nothing */
function walkRule(scope: Scope, chain: Chain, rule: Rule): Decisive | undefined {
  for (const statement of rule.statements) {
    if (statement.kind === "counter") {
      const name = scope.table.ruleName(chain, rule);
      scope.table.counted.set(name, (scope.table.counted.get(name) ?? 0) + 1);
    }
    const effect = carryOut(scope, statement);
    if (effect.kind === "break") return undefined;
    if (effect.kind === "next") continue;
    if (effect.kind === "verdict" && effect.verdict.kind === "continue") continue;
    return effect;
  }
  return undefined;
}
