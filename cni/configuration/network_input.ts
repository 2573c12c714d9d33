import type { Configured } from "./decoding.ts";
import { policydShape } from "./policyd_access.ts";

const range = {
  subnet: "string",
  rangeStart: "string",
  rangeEnd: "string",
  gateway: "string",
  exclude: ["string"],
} as const;

/** A route of a configuration or of a result. */
export const routeShape = {
  dst: "string",
  gw: "string",
  mtu: "number",
  advmss: "number",
  priority: "number",
  table: "number",
  scope: "number",
} as const;

export const dnsShape = { nameservers: ["string"], domain: "string", search: ["string"], options: ["string"] } as const;

const ipam = {
  ...range,
  type: "string",
  ranges: [[range]],
  routes: [routeShape],
  dataDir: "string",
  resolvConf: "string",
} as const;

/** Options of the reference `portmap` plugin, whose work this plugin does. */
const portmapOptions = {
  backend: "string",
  snat: "boolean",
  masqAll: "boolean",
  markMasqBit: "number",
  externalSetMarkChain: "string",
  conditionsV4: ["any"],
  conditionsV6: ["any"],
} as const;

/**
 * The keys that the plugin reads from the configuration on standard input: those of the reference `bridge`,
 * `host-local` and `portmap` plugins, and ours (`runDir`, `routed`, `bypassBridge`, `policyd`, `exclude`,
 * `nonMasqueradeCIDRs`, `serviceCIDRs`, `detachOnly`). Only their types; values are validated in configuration.ts.
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
  ipMasqBackend: "string",
  nonMasqueradeCIDRs: ["string"],
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
  bypassBridge: "boolean",
  policyd: policydShape,
  prevResult: "object",
  runDir: "string",
  detachOnly: "boolean",
  serviceCIDRs: ["string"],
  ...portmapOptions,
  ipam,
  dns: dnsShape,
  args: { cni: { ips: ["string"], mac: "string" } },
  runtimeConfig: {
    ips: ["string"],
    mac: "string",
    ipRanges: [[range]],
    portMappings: [{ hostPort: "number", containerPort: "number", protocol: "string", hostIP: "string" }],
    bandwidth: { ingressRate: "number", ingressBurst: "number", egressRate: "number", egressBurst: "number" },
  },
} as const;

/** The keys that a DEL reads; the others may have any type. */
export const detachShape = {
  cniVersion: "string",
  name: "string",
  bridge: "string",
  runDir: "string",
  policyd: "any",
  ipam: { type: "any", dataDir: "string" },
} as const;

export type NetworkInput = Configured<typeof networkShape>;

export type DetachInput = Configured<typeof detachShape>;
