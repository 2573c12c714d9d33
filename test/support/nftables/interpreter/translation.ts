import { type Address, addressFromValue } from "../../../../kernel/ip/address.ts";
import type { NatTarget, Statement } from "../../../../kernel/nftables/model/statement.ts";
import { readMap, type Scope } from "./expression.ts";
import { networkOf } from "./field.ts";
import { hasPorts } from "./packet.ts";
import type { Value } from "./value.ts";

/** The new source or destination of a packet; an absent field is not changed. */
export interface Translation {
  readonly half: "source" | "destination";
  readonly by: "dnat" | "masquerade";
  readonly address?: Address;
  readonly port?: number;
}

/** The statements that translate. */
export type NatStatement = Extract<Statement, { readonly kind: "dnat" | "masquerade" }>;

/**
 * Returns the translation of a packet by a NAT statement; undefined where the statement has no target for it, which
 * ends the rule.
 */
export function translationOf(scope: Scope, statement: NatStatement): Translation | undefined {
  const { packet, surroundings } = scope;
  if (statement.kind === "masquerade") {
    return { half: "source", by: "masquerade", address: surroundings.ownAddress(packet) };
  }
  const target = targetOf(scope, statement.target);
  return target && { half: "destination", by: "dnat", ...target };
}

function targetOf(scope: Scope, target: NatTarget): Pick<Translation, "address" | "port"> | undefined {
  const { packet } = scope;
  if (target.family !== networkOf(packet)) return undefined;
  const [address, port] = readMap(scope, target.lookup) ?? [];
  if (address === undefined) return undefined;
  const parsed = addressOf(target.family, address);
  if (!target.hasPort) return { address: parsed };
  if (port === undefined || !hasPorts(packet.tuple.protocol)) throw new Error("a port mapping without a port");
  return { address: parsed, port: Number(port) };
}

function addressOf(family: "ip" | "ip6", value: Value): Address {
  const address = addressFromValue(family === "ip" ? 4 : 6, BigInt(value));
  if (address === undefined) throw new Error(`${value} is not an address of ${family}`);
  return address;
}
