import type { Decoded } from "./json.ts";

const range = {
  subnet: "string",
  rangeStart: "string",
  rangeEnd: "string",
  gateway: "string",
  exclude: ["string"],
} as const;

const dns = { nameservers: ["string"], domain: "string", search: ["string"], options: ["string"] } as const;

const ipam = {
  ...range,
  type: "string",
  ranges: [[range]],
  routes: [{ dst: "string", gw: "string" }],
  dataDir: "string",
  resolvConf: "string",
} as const;

/**
 * What the plugin reads of its configuration on standard input: the keys of the reference `bridge` and `host-local`
 * plugins, and ours (`runDir`, `routed`, `policyd`, `exclude`). Types only; values are judged in configuration.ts.
 */
export const networkShape = {
  cniVersion: "string",
  name: "string",
  type: "string",
  bridge: "string",
  addIf: "string",
  isGateway: "boolean",
  isDefaultGateway: "boolean",
  forceAddress: "boolean",
  ipMasq: "boolean",
  hairpinMode: "boolean",
  promiscMode: "boolean",
  macspoofchk: "boolean",
  enabledad: "boolean",
  disableContainerInterface: "boolean",
  portIsolation: "boolean",
  vlan: "number",
  vlanTrunk: ["any"],
  mtu: "number",
  routed: "boolean",
  policyd: "any",
  prevResult: "object",
  runDir: "string",
  ipam,
  dns,
  args: { cni: { ips: ["string"], mac: "string" } },
  runtimeConfig: {
    ips: ["string"],
    mac: "string",
    ipRanges: [[range]],
    portMappings: ["any"],
    bandwidth: "any",
  },
} as const;

/** What a DEL reads of it; the rest may be of any type. */
export const detachShape = {
  cniVersion: "string",
  name: "string",
  bridge: "string",
  runDir: "string",
  ipam: { dataDir: "string" },
} as const;

export type NetworkInput = Decoded<typeof networkShape>;

export type DetachInput = Decoded<typeof detachShape>;
