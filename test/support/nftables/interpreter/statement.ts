import type { Statement, Verdict } from "../../../../kernel/nftables/model/statement.ts";
import { isMatched, readAll, type Scope } from "./expression.ts";
import { isNoted } from "./note.ts";
import { type NatStatement, type Translation, translationOf } from "./translation.ts";

/** The effect of one statement: the next one follows, the rule ends here, or it decides something. */
export type Effect =
  | { readonly kind: "next" }
  | { readonly kind: "break" }
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "reject"; readonly reply: Extract<Statement, { readonly kind: "reject" }>["reply"] }
  | { readonly kind: "translate"; readonly translation: Translation };

const next: Effect = { kind: "next" };
const leave: Effect = { kind: "break" };

/** Carries out one statement. Logging and rate limits do nothing: a limit's rate is never exceeded. */
export function carryOut(scope: Scope, statement: Statement): Effect {
  switch (statement.kind) {
    case "match":
      return nextIf(isMatched(scope, statement));
    case "limit":
      return statement.isOver ? leave : next;
    case "counter":
    case "log":
    case "set trace":
      return next;
    case "verdict":
    case "vmap":
    case "reject":
    case "dnat":
    case "snat":
    case "redirect":
    case "masquerade":
      return decide(scope, statement);
    default:
      return nextIf(isNoted(scope, statement));
  }
}

function nextIf(holds: boolean): Effect {
  return holds ? next : leave;
}

function decide(
  scope: Scope,
  statement: NatStatement | Extract<Statement, { readonly kind: "verdict" | "vmap" | "reject" }>,
): Effect {
  switch (statement.kind) {
    case "verdict":
      return { kind: "verdict", verdict: statement.verdict };
    case "vmap":
      return lookUpVerdict(scope, statement);
    case "reject":
      if (statement.reply === "tcp reset" && scope.packet.tuple.protocol !== "tcp") return leave;
      return { kind: "reject", reply: statement.reply };
    default: {
      const translation = translationOf(scope, statement);
      return translation === undefined ? leave : { kind: "translate", translation };
    }
  }
}

function lookUpVerdict(scope: Scope, { key, mask, map }: Extract<Statement, { readonly kind: "vmap" }>): Effect {
  const values = readAll(scope, key);
  const masked = values?.map((value) => (mask === undefined ? value : BigInt(value) & BigInt(mask)));
  const data = masked === undefined ? undefined : scope.table.set(map).lookup(masked)?.data;
  if (data === undefined) return leave;
  if (!("kind" in data)) throw new Error(`map ${map} holds no verdicts`);
  return { kind: "verdict", verdict: data };
}
