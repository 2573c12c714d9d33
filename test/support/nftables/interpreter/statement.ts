import type { Statement, Verdict } from "../../../../kernel/nftables/model/statement.ts";
import { isMatched, readAll, type Scope, readMap } from "./expression.ts";
import { type NatStatement, type Translation, translationOf } from "./translation.ts";
import { addressFromValue } from "../../../../kernel/ip/address.ts";
import { networkOf, readField } from "./field.ts";

type NoteStatement = Extract<
  Statement,
  {
    readonly kind:
      | "set mark"
      | "set priority from"
      | "mask priority"
      | "clear priority"
      | "set label"
      | "set address"
      | "dynamic";
  }
>;

/**
 * Carries out a statement that stores something beside the packet: its mark, its traffic class, its connection's label,
 * an element of a set.
 *
 * @returns false where the rule ends
 */
function isNoted(scope: Scope, statement: NoteStatement): boolean {
  const { packet } = scope;
  switch (statement.kind) {
    case "dynamic":
      return isSetChanged(scope, statement);
    case "set label":
      packet.connection?.labels.add(statement.bit);
      return true;
    case "set address":
      return isAddressSet(scope, statement);
    case "mask priority":
      packet.priority = ((packet.priority ?? 0) & statement.bits) >>> 0;
      return true;
    case "clear priority":
      packet.priority = 0;
      return true;
    case "set mark": {
      const { operation, bits } = statement;
      packet.mark = (operation === "or" ? packet.mark | bits : packet.mark & bits) >>> 0;
      return true;
    }
    default: {
      const [value] = readMap(scope, statement.from) ?? [];
      if (value === undefined) return false;
      packet.priority = Number(value);
      return true;
    }
  }
}

function isAddressSet(
  { packet, surroundings }: Scope,
  { field, value }: Extract<Statement, { readonly kind: "set address" }>,
): boolean {
  const family = field.startsWith("ip6") ? 6 : 4;
  const read = typeof value === "string" ? readField(packet, surroundings, value) : value;
  const address = read === undefined ? undefined : addressFromValue(family, BigInt(read));
  if (address === undefined || networkOf(packet) !== (family === 4 ? "ip" : "ip6")) return false;
  packet.tuple = { ...packet.tuple, [field.endsWith("saddr") ? "source" : "destination"]: address };
  return true;
}

function isSetChanged(scope: Scope, statement: Extract<Statement, { readonly kind: "dynamic" }>): boolean {
  const key = readAll(scope, statement.key);
  const data = statement.data === undefined ? undefined : readAll(scope, statement.data);
  if (key === undefined || (statement.data !== undefined && data === undefined)) return false;
  const set = scope.table.set(statement.set);
  if (statement.operation === "delete") {
    set.remove(key);
    return true;
  }
  const isThere = set.put(key, statement.operation, statement.timeout, data);
  const { limit } = statement;
  if (!isThere || limit === undefined) return isThere;
  // No time passes between the packets of a test, so only the burst is available.
  return set.take(key) > limit.burst === limit.isOver;
}

/** The effect of one statement: the next one follows, the rule ends here, or it decides something. */
export type Effect =
  | { readonly kind: "next" }
  | { readonly kind: "break" }
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "reject"; readonly reply: Extract<Statement, { readonly kind: "reject" }>["reply"] }
  | { readonly kind: "translate"; readonly translation: Translation };

const next: Effect = { kind: "next" };
const leave: Effect = { kind: "break" };

/** Carries out one statement. Logging, queues and rate limits do nothing: a limit's rate is never exceeded. */
export function carryOut(scope: Scope, statement: Statement): Effect {
  switch (statement.kind) {
    case "match":
      return nextIf(isMatched(scope, statement));
    case "limit":
      return statement.isOver ? leave : next;
    case "counter":
    case "log":
    case "queue":
    case "set trace":
      return next;
    case "verdict":
    case "vmap":
    case "reject":
    case "dnat":
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
