import { familyOf, parseAddress } from "../../kernel/ip/address.ts";
import { cidrFamily, parseCidr } from "../../kernel/ip/cidr.ts";
import { invalidField } from "../error.ts";
import { decode, type Decoded, isObject } from "../json.ts";
import { dnsShape, routeShape } from "./network_input.ts";
import { type AddResult, resultObject } from "../result.ts";
import type { CniVersion } from "../version.ts";

/** The result of the plugins before this one in the chain. */
export interface PreviousResult {
  readonly interfaces: readonly unknown[];
  readonly ips: readonly unknown[];
  readonly routes: readonly unknown[];
  readonly dns: unknown;
  /** Members that this plugin does not know. */
  readonly others: Readonly<Record<string, unknown>>;
  /** The result as it came. */
  readonly whole: Readonly<Record<string, unknown>>;
}

const shape = {
  cniVersion: "string",
  interfaces: [{ name: "string", mac: "string", sandbox: "string", mtu: "number" }],
  ips: [{ interface: "number", address: "string", gateway: "string" }],
  routes: [routeShape],
  dns: dnsShape,
} as const;

/**
 * The largest length of a list, more than any pod needs. Each entry is handed on to every later plugin of the chain.
 */
const MOST = 1024;

const LISTS = ["interfaces", "ips", "routes"] as const;

/**
 * JSON.parse gives the text of a number to its reviver, and JSON.rawJSON makes a value that is printed as that text.
 */
declare global {
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
    rawJSON(text: string): unknown;
  }
}

/**
 * Validates `prevResult` of an ADD and returns it unchanged.
 *
 * @param decoded the member as the configuration's gate has decoded it
 * @param stdin the configuration that contains it
 * @throws CniError 7 naming the field; DrawbridgeError ERR_ADDRESS for a text that is not an address
 */
export function previousResult(decoded: object, stdin: string): PreviousResult | undefined {
  judge(decoded);
  const exact = exactMember(stdin, "prevResult");
  if (!isObject(exact)) return undefined;
  const kept: Record<string, unknown> = {};
  const others: Record<string, unknown> = {};
  const known: readonly string[] = ["cniversion", "dns", ...LISTS];
  for (const [key, value] of Object.entries(exact)) {
    const name = key.toLowerCase();
    if (!known.includes(name)) setMember(others, key, value);
    else if (value !== null) kept[name] = value;
  }
  const list = (name: (typeof LISTS)[number]): readonly unknown[] => (Array.isArray(kept[name]) ? kept[name] : []);
  return {
    interfaces: list("interfaces"),
    ips: list("ips"),
    routes: list("routes"),
    dns: kept["dns"],
    others,
    whole: exact,
  };
}

function judge(value: unknown): void {
  const { interfaces = [], ips = [], routes = [] } = decode(value, shape, "prevResult");
  for (const [name, { length }] of Object.entries({ interfaces, ips, routes })) {
    if (length > MOST) throw invalidField(`prevResult.${name}`, length, `at most ${MOST} entries`);
  }
  for (const [index, { name = "" }] of interfaces.entries()) {
    if (name === "") throw invalidField(`prevResult.interfaces[${index}].name`, name, "the name of an interface");
  }
  for (const [index, ip] of ips.entries()) judgeAddress(ip, `prevResult.ips[${index}]`, interfaces.length);
  for (const [index, { dst = "", gw = "" }] of routes.entries()) {
    parseCidr(dst, `prevResult.routes[${index}].dst`);
    if (gw !== "") parseAddress(gw, `prevResult.routes[${index}].gw`);
  }
}

function judgeAddress(
  { interface: place, address = "", gateway = "" }: Decoded<(typeof shape)["ips"][0]>,
  field: string,
  interfaces: number,
): void {
  const family = cidrFamily(parseCidr(address, `${field}.address`));
  if (gateway !== "" && familyOf(parseAddress(gateway, `${field}.gateway`)) !== family) {
    throw invalidField(`${field}.gateway`, gateway, `an IPv${family} address`);
  }
  if (place === undefined || (Number.isInteger(place) && place >= 0 && place < interfaces)) return;
  throw invalidField(`${field}.interface`, place, `the place of one of its ${interfaces} interfaces, from 0`);
}

/** Returns a member of an object in JSON, by its name in any case, with every number exactly as it is written. */
function exactMember(text: string, name: string): unknown {
  const whole = JSON.parse(text, (_, value, { source }) =>
    typeof value === "number" && source !== undefined && source !== String(value) ? JSON.rawJSON(source) : value,
  );
  let found: unknown;
  if (isObject(whole)) {
    for (const [key, value] of Object.entries(whole)) if (key.toLowerCase() === name.toLowerCase()) found = value;
  }
  return found;
}

/** Sets an own member. This includes one named `__proto__`, which an assignment would not make. */
function setMember(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

/**
 * Joins the result of an ADD with the result of the plugins before it, which a plugin has to hand on (CNI
 * specification, "ADD Success"). Their interfaces, addresses and routes come first, ours follow, and members that we do
 * not know stay. Our DNS settings, if we have any, replace theirs.
 *
 * Versions before 0.3.0 have one block for each family and no chains: ours replaces theirs.
 *
 * @throws CniError 2 when an old version cannot express the result
 */
export function chainedResult(result: AddResult, version: CniVersion, previous: PreviousResult): object {
  const { interfaces, ips, routes, dns, others } = previous;
  const behind = (place: number | undefined): object =>
    place === undefined ? {} : { interface: place + interfaces.length };
  const ours = resultObject({ ...result, ips: result.ips.map((ip) => ({ ...ip, ...behind(ip.interface) })) }, version);
  if (version === "0.1.0" || version === "0.2.0") return { ...others, ...ours };
  const own: Readonly<Record<string, unknown>> = { ...ours };
  const joined = (name: (typeof LISTS)[number], theirs: readonly unknown[]): object => {
    const mine: readonly unknown[] = Array.isArray(own[name]) ? own[name] : [];
    const list = [...theirs, ...mine];
    return list.length === 0 ? {} : { [name]: list };
  };
  const hasDns = Object.keys(result.dns).length > 0 || dns === undefined;
  return {
    ...others,
    ...ours,
    ...joined("interfaces", interfaces),
    ...joined("ips", ips),
    ...joined("routes", routes),
    ...(hasDns ? {} : { dns }),
  };
}

/** Returns the result of a plugin that hands the previous result on and adds nothing. */
export function unchangedResult({ whole }: PreviousResult, version: CniVersion): object {
  // libcni hands it over in the version of the configuration.
  return { ...whole, cniVersion: version };
}
