import type { Statement } from "../../../../kernel/nftables/model/statement.ts";
import { addressFromValue } from "../../../../kernel/ip/address.ts";
import { networkOf, readField } from "./field.ts";
import { readAll, readMap, type Scope } from "./expression.ts";

type NoteStatement = Extract<
  Statement,
  {
    readonly kind:
      | "set mark"
      | "set mark from"
      | "set priority from"
      | "mask priority"
      | "clear priority"
      | "set label"
      | "set address"
      | "dynamic"
      | "notrack";
  }
>;

/**
 * Carries out a statement that stores something beside the packet: its mark, its traffic class, its connection's label,
 * an element of a set.
 *
 * @returns false where the rule ends
 */
export function isNoted(scope: Scope, statement: NoteStatement): boolean {
  const { packet } = scope;
  switch (statement.kind) {
    case "dynamic":
      return isSetChanged(scope, statement);
    case "set label":
      packet.connection?.labels.add(statement.bit);
      return true;
    case "set address":
      return isAddressSet(scope, statement);
    case "notrack":
      if (packet.connection === undefined) packet.isUntracked = true;
      return true;
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
      packet[statement.kind === "set mark from" ? "mark" : "priority"] = Number(value);
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
