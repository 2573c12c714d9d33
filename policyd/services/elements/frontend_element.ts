import type { Family } from "../../../kernel/ip/address.ts";
import { TRANSPORT_OF } from "../../../objects/protocol.ts";
import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { KeyField } from "../../../kernel/nftables/model/expression.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE } from "../../ruleset/table_part.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import type { FrontendKind } from "../rules/frontend_kind.ts";

export function claim(
  set: string,
  key: readonly KeyField[],
  data?: readonly Scalar[],
  comment?: string,
): DesiredElement {
  return { table: INET_TABLE, set, element: elementOf(key, data, comment) };
}

function elementOf(key: Element["key"], data: readonly Scalar[] | undefined, comment: string | undefined): Element {
  if (data === undefined) return comment === undefined ? { key } : { key, comment };
  return comment === undefined ? { key, data } : { key, data, comment };
}

/** Returns the kind of a frontend, which decides the sets that hold its elements. */
export function kindOf(frontend: Frontend, family: Family): FrontendKind {
  return { family, space: frontend.type === "node port" ? "port" : "service" };
}

/**
 * Returns a frontend as the key of those sets.
 *
 * Here and in {@link keyWith} arrays are made with exactly the needed length: one that is spread into another gets room
 * for 16 more elements, and a node retains tens of thousands of them.
 */
export function keyOf(frontend: Frontend, protocol: Protocol): readonly Scalar[] {
  return frontend.type === "node port"
    ? [TRANSPORT_OF[protocol], frontend.port]
    : [frontend.address, TRANSPORT_OF[protocol], frontend.port];
}

/** Returns a frontend's key followed by one more field. */
export function keyWith(key: readonly Scalar[], last: KeyField): readonly KeyField[] {
  const fields: readonly KeyField[] = key;
  return fields.concat([last]);
}
