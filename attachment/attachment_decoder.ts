import { isTransport } from "../kernel/ip/protocol.ts";
import { expectContainerId, expectInterfaceName, expectNetworkName, isDirectoryPath } from "../ipam/owner.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { parseAddress } from "../kernel/ip/address.ts";
import { type Cidr, parseCidr } from "../kernel/ip/cidr.ts";
import { parseMac } from "../kernel/ip/mac.ts";
import type { AttachmentRecord, Bandwidth, PortMapping, RecordedHost, RecordedRules } from "./attachment.ts";
import { MOST_NETWORKS } from "./attachment_writer.ts";

/**
 * Reads the text of an attachment record; unknown fields are ignored.
 *
 * The result is built field by field from own properties, so a `__proto__` or `constructor` key in the text cannot
 * reach a prototype.
 *
 * @throws DrawbridgeError ERR_STORE, ERR_ADDRESS or ERR_CONFIGURATION naming the field, for any other text
 */
export function decodeAttachment(text: string): AttachmentRecord {
  return attachmentFromJson(parseJson(text));
}

/** As {@link decodeAttachment} for parsed JSON, such as a part of a message. */
export function attachmentFromJson(value: unknown): AttachmentRecord {
  const record = new JsonObject(value, "record");
  if (record.get("version") !== 1) throw malformed("version", record.get("version"), "1");
  const pod = record.optionalObject("pod");
  const bandwidth = record.optionalObject("bandwidth");
  const policyd = record.optionalObject("policyd");
  const netns = record.object("netns");
  return Object.freeze({
    version: 1,
    bootId: record.string("bootId"),
    network: expectNetworkName(record.string("network")),
    dataDir: expectDirectory(record.string("dataDir")),
    bridge: expectInterfaceName(record.string("bridge")),
    containerId: expectContainerId(record.string("containerId")),
    ifname: expectInterfaceName(record.string("ifname")),
    netns: Object.freeze({ path: netns.string("path"), inode: netns.string("inode") }),
    ...(pod === undefined
      ? {}
      : {
          pod: Object.freeze({
            namespace: pod.string("namespace"),
            name: pod.string("name"),
            uid: pod.string("uid"),
          }),
        }),
    addresses: decodeCidrs(record.list("addresses"), "addresses"),
    mac: parseMac(record.string("mac"), "mac"),
    hostInterface: expectHostInterface(record.string("hostInterface")),
    hostMac: parseMac(record.string("hostMac"), "hostMac"),
    portMappings: Object.freeze(record.list("portMappings").map(decodePortMapping)),
    ...(record.get("ipMasq") === undefined ? {} : { ipMasq: record.boolean("ipMasq") }),
    ...(record.get("macspoofchk") === undefined ? {} : { macspoofchk: record.boolean("macspoofchk") }),
    ...(bandwidth === undefined ? {} : { bandwidth: decodeBandwidth(bandwidth) }),
    ...(policyd === undefined ? {} : { policyd: decodeRules(policyd) }),
    host: decodeHost(record.object("host")),
  });
}

function expectDirectory(path: string): string {
  if (isDirectoryPath(path)) return path;
  throw malformed("dataDir", path, 'an absolute path without ".."');
}

/** Accepts only names that the plugin gives: policyd removes the link of this name and writes it into rules. */
function expectHostInterface(name: string): string {
  if (/^dbv[0-9a-f]{12}$/.test(name)) return name;
  throw malformed("hostInterface", name, '"dbv" and 12 hexadecimal digits');
}

function decodePortMapping(value: unknown, index: number): PortMapping {
  const field = `portMappings[${index}]`;
  const mapping = new JsonObject(value, field);
  const protocol = mapping.string("protocol");
  if (!isTransport(protocol)) {
    throw malformed(`${field}.protocol`, protocol, "tcp, udp or sctp");
  }
  const hostIp = mapping.get("hostIp");
  return Object.freeze({
    hostPort: mapping.integer("hostPort", 1, 65535),
    containerPort: mapping.integer("containerPort", 1, 65535),
    protocol,
    ...(hostIp === undefined
      ? {}
      : { hostIp: parseAddress(expectString(hostIp, `${field}.hostIp`), `${field}.hostIp`) }),
  });
}

function decodeRules(rules: JsonObject): RecordedRules {
  const networks = (key: keyof RecordedRules): readonly Cidr[] => {
    const list = rules.list(key);
    if (list.length <= MOST_NETWORKS) return decodeCidrs(list, `policyd.${key}`);
    throw malformed(`policyd.${key}`, list.length, `at most ${MOST_NETWORKS} networks`);
  };
  return Object.freeze({
    serviceCidrs: networks("serviceCidrs"),
    nonMasqueradeCidrs: networks("nonMasqueradeCidrs"),
  });
}

/** The largest MTU of a device (the kernel's dev_set_mtu accepts more for a few devices, but not for a veth). */
const LARGEST_MTU = 65_535;

function decodeHost(host: JsonObject): RecordedHost {
  const networks = (key: "bridgeAddresses" | "routes"): readonly Cidr[] => {
    const list = host.list(key);
    if (list.length <= MOST_NETWORKS) return decodeCidrs(list, `host.${key}`);
    throw malformed(`host.${key}`, list.length, `at most ${MOST_NETWORKS} networks`);
  };
  return Object.freeze({
    bridgeMac: parseMac(host.string("bridgeMac"), "host.bridgeMac"),
    mtu: host.integer("mtu", 1, LARGEST_MTU),
    bridgeAddresses: networks("bridgeAddresses"),
    routes: networks("routes"),
    hairpin: host.boolean("hairpin"),
    bypass: host.boolean("bypass"),
    isMacRequested: host.boolean("isMacRequested"),
  });
}

function decodeCidrs(list: readonly unknown[], field: string): readonly Cidr[] {
  return Object.freeze(list.map((item, i) => parseCidr(expectString(item, `${field}[${i}]`), `${field}[${i}]`)));
}

function decodeBandwidth(bandwidth: JsonObject): Bandwidth {
  const rate = (key: string): number => bandwidth.integer(key, 0, Number.MAX_SAFE_INTEGER);
  return Object.freeze({
    ingressRate: rate("ingressRate"),
    ingressBurst: rate("ingressBurst"),
    egressRate: rate("egressRate"),
    egressBurst: rate("egressBurst"),
  });
}

/** The own properties of a JSON object, read by name and type. A wrong type throws DrawbridgeError ERR_STORE. */
export class JsonObject {
  readonly #members: ReadonlyMap<string, unknown>;
  readonly #field: string;

  constructor(value: unknown, field: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw malformed(field, value, "an object");
    }
    this.#members = new Map<string, unknown>(Object.entries(value));
    this.#field = field;
  }

  get(key: string): unknown {
    return this.#members.get(key);
  }

  keys(): readonly string[] {
    return [...this.#members.keys()];
  }

  string(key: string): string {
    return expectString(this.get(key), this.#path(key));
  }

  integer(key: string, least: number, most: number): number {
    const value = this.get(key);
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
    throw malformed(this.#path(key), value, `an integer from ${least} to ${most}`);
  }

  boolean(key: string): boolean {
    const value = this.get(key);
    if (typeof value === "boolean") return value;
    throw malformed(this.#path(key), value, "true or false");
  }

  list(key: string): readonly unknown[] {
    const value = this.get(key);
    if (Array.isArray(value)) return value;
    throw malformed(this.#path(key), value, "a list");
  }

  object(key: string): JsonObject {
    return new JsonObject(this.get(key), this.#path(key));
  }

  optionalObject(key: string): JsonObject | undefined {
    return this.get(key) === undefined ? undefined : this.object(key);
  }

  #path(key: string): string {
    return `${this.#field}.${key}`;
  }
}

export function expectString(value: unknown, field: string): string {
  if (typeof value === "string") return value;
  throw malformed(field, value, "a string");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Only the text can cause a failure. The parser's message would quote it; its length says enough about a torn file.
    throw new DrawbridgeError("ERR_STORE", `no JSON in ${text.length} characters`);
  }
}

function malformed(field: string, value: unknown, expectation: string): DrawbridgeError {
  // Objects are not printed: a deeply nested one would overflow the stack here.
  const shown =
    typeof value === "object" && value !== null ? "an object or list" : (JSON.stringify(value) ?? "nothing");
  return new DrawbridgeError("ERR_STORE", `${field}: ${shown.slice(0, 80)}; expected ${expectation}`);
}
