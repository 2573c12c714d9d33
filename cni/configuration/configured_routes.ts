import { familyOf, parseAddress } from "../../kernel/ip/address.ts";
import { cidrFamily, hasHostBits, parseCidr } from "../../kernel/ip/cidr.ts";
import { invalidField } from "../error.ts";
import type { Decoded } from "../json.ts";
import type { routeShape } from "./network_input.ts";
import type { ResultRoute, RouteOptions } from "../result.ts";
import { unsupported } from "./unsupported.ts";

type Input = Decoded<typeof routeShape>;

/** The options of CNI 1.1 and the largest value of each that the kernel can store. */
const LARGEST = { mtu: 65_535, advmss: 65_535, priority: 0xffff_ffff, table: 0xffff_ffff } as const;
const OPTIONS = ["mtu", "advmss", "priority", "table"] as const;

/**
 * Validates a list of routes.
 *
 * @param field names the list in an error
 * @throws CniError 7 naming the field, 2 for a scope
 * @throws DrawbridgeError ERR_ADDRESS for a text that is not an address or prefix
 */
export function configuredRoutes(list: readonly Input[], field = "ipam.routes"): readonly ResultRoute[] {
  return list.map((input, index) => routeOf(input, `${field}[${index}]`));
}

function routeOf({ dst, gw, scope, ...options }: Input, field: string): ResultRoute {
  if (dst === undefined) throw invalidField(`${field}.dst`, dst, 'a prefix such as "0.0.0.0/0"');
  const destination = parseCidr(dst, `${field}.dst`);
  if (hasHostBits(destination)) throw invalidField(`${field}.dst`, dst, "a network without host bits");
  if (scope !== undefined && scope !== 0) {
    throw unsupported(`${field}.scope`, scope, "0 or absent: the kernel takes no other beside a gateway");
  }
  const route = { destination, ...optionsOf(options, field) };
  if (gw === undefined || gw === "") return route;
  const gateway = parseAddress(gw, `${field}.gw`);
  if (familyOf(gateway) !== cidrFamily(destination)) {
    throw invalidField(`${field}.gw`, gw, `an IPv${cidrFamily(destination)} address, like the destination ${dst}`);
  }
  return { ...route, gateway };
}

/** Returns the options that are set: 0 counts as absent, as in Go's types. */
function optionsOf(input: Omit<Input, "dst" | "gw" | "scope">, field: string): RouteOptions {
  const options: { -readonly [K in keyof RouteOptions]: RouteOptions[K] } = {};
  for (const name of OPTIONS) {
    const value = input[name] ?? 0;
    if (!Number.isInteger(value) || value < 0 || value > LARGEST[name]) {
      throw invalidField(`${field}.${name}`, value, `an integer of 0 (absent) to ${LARGEST[name]}`);
    }
    if (value !== 0) options[name] = value;
  }
  return options;
}
