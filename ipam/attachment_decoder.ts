import { DrawbridgeError } from "../kernel/error.ts";
import { parseAddress } from "../kernel/ip/address.ts";
import { parseCidr } from "../kernel/ip/cidr.ts";
import { parseMac } from "../kernel/ip/mac.ts";
import type { AttachmentRecord, Bandwidth, PortMapping } from "./attachment.ts";
import { isDirectoryPath, expectContainerId, expectInterfaceName, expectNetworkName } from "./owner.ts";

/**
 * Reads the text of an attachment record; unknown fields are ignored.
 *
 * The result is built field by field from own properties, so a `__proto__` or `constructor` key in the text reaches
 * no prototype.
 *
 * @throws DrawbridgeError ERR_STORE, ERR_ADDRESS or ERR_CONFIGURATION naming the field, for whatever is not such a
 *   record
 */
export function decodeAttachment(text: string): AttachmentRecord {
  const record = new JsonObject(parseJson(text), "record");
  if (record.get("version") !== 1) throw malformed("version", record.get("version"), "1");
  const pod = record.optionalObject("pod");
  const bandwidth = record.optionalObject("bandwidth");
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
    addresses: Object.freeze(
      record.list("addresses").map((item, i) => parseCidr(expectString(item, `addresses[${i}]`), `addresses[${i}]`)),
    ),
    mac: parseMac(record.string("mac"), "mac"),
    hostInterface: expectInterfaceName(record.string("hostInterface")),
    hostMac: parseMac(record.string("hostMac"), "hostMac"),
    portMappings: Object.freeze(record.list("portMappings").map(decodePortMapping)),
    ...(bandwidth === undefined ? {} : { bandwidth: decodeBandwidth(bandwidth) }),
  });
}

function expectDirectory(path: string): string {
  if (isDirectoryPath(path)) return path;
  throw malformed("dataDir", path, 'an absolute path without ".."');
}

function decodePortMapping(value: unknown, index: number): PortMapping {
  const field = `portMappings[${index}]`;
  const mapping = new JsonObject(value, field);
  const protocol = mapping.string("protocol");
  if (protocol !== "tcp" && protocol !== "udp" && protocol !== "sctp") {
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

function decodeBandwidth(bandwidth: JsonObject): Bandwidth {
  const rate = (key: string): number => bandwidth.integer(key, 0, Number.MAX_SAFE_INTEGER);
  return Object.freeze({
    ingressRate: rate("ingressRate"),
    ingressBurst: rate("ingressBurst"),
    egressRate: rate("egressRate"),
    egressBurst: rate("egressBurst"),
  });
}

/** The own properties of a JSON object, read by name and type. */
class JsonObject {
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

  string(key: string): string {
    return expectString(this.get(key), this.#path(key));
  }

  integer(key: string, least: number, most: number): number {
    const value = this.get(key);
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
    throw malformed(this.#path(key), value, `an integer from ${least} to ${most}`);
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

function expectString(value: unknown, field: string): string {
  if (typeof value === "string") return value;
  throw malformed(field, value, "a string");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Only the text can make this fail. The parser's message would quote it; its length says enough about a torn file.
    throw new DrawbridgeError("ERR_STORE", `no JSON in ${text.length} characters`);
  }
}

function malformed(field: string, value: unknown, expectation: string): DrawbridgeError {
  // Objects are not printed: a deeply nested one would overflow the stack here.
  const shown =
    typeof value === "object" && value !== null ? "an object or list" : (JSON.stringify(value) ?? "nothing");
  return new DrawbridgeError("ERR_STORE", `${field}: ${shown.slice(0, 80)}; expected ${expectation}`);
}
