import * as v from "valibot";
import type { KeyShape } from "./json.ts";

const range = v.object({
  subnet: v.string(),
  rangeStart: v.optional(v.string()),
  rangeEnd: v.optional(v.string()),
  gateway: v.optional(v.string()),
  exclude: v.optional(v.array(v.string())),
});

const route = v.object({ dst: v.string(), gw: v.optional(v.string()) });

const dns = v.object({
  nameservers: v.optional(v.array(v.string())),
  domain: v.optional(v.string()),
  search: v.optional(v.array(v.string())),
  options: v.optional(v.array(v.string())),
});

const ipam = v.object({
  type: v.optional(v.string()),
  ranges: v.optional(v.array(v.array(range))),
  subnet: v.optional(v.string()),
  rangeStart: v.optional(v.string()),
  rangeEnd: v.optional(v.string()),
  gateway: v.optional(v.string()),
  exclude: v.optional(v.array(v.string())),
  routes: v.optional(v.array(route)),
  dataDir: v.optional(v.string()),
  resolvConf: v.optional(v.string()),
});

/**
 * What the plugin reads of its configuration on standard input: the keys of the reference `bridge` and `host-local`
 * plugins, and ours (`runDir`, `routed`, `policyd`, `exclude`). Types only; values are judged in configuration.ts.
 */
export const networkSchema = v.object({
  cniVersion: v.optional(v.string()),
  name: v.optional(v.string()),
  type: v.optional(v.string()),
  bridge: v.optional(v.string()),
  addIf: v.optional(v.string()),
  isGateway: v.optional(v.boolean()),
  isDefaultGateway: v.optional(v.boolean()),
  forceAddress: v.optional(v.boolean()),
  ipMasq: v.optional(v.boolean()),
  hairpinMode: v.optional(v.boolean()),
  promiscMode: v.optional(v.boolean()),
  macspoofchk: v.optional(v.boolean()),
  enabledad: v.optional(v.boolean()),
  disableContainerInterface: v.optional(v.boolean()),
  portIsolation: v.optional(v.boolean()),
  vlan: v.optional(v.number()),
  vlanTrunk: v.optional(v.array(v.unknown())),
  mtu: v.optional(v.number()),
  routed: v.optional(v.boolean()),
  policyd: v.optional(v.unknown()),
  prevResult: v.optional(v.record(v.string(), v.unknown())),
  runDir: v.optional(v.string()),
  ipam: v.optional(ipam),
  dns: v.optional(dns),
  args: v.optional(
    v.object({ cni: v.optional(v.object({ ips: v.optional(v.array(v.string())), mac: v.optional(v.string()) })) }),
  ),
  runtimeConfig: v.optional(
    v.object({
      ips: v.optional(v.array(v.string())),
      mac: v.optional(v.string()),
      ipRanges: v.optional(v.array(v.array(range))),
      portMappings: v.optional(v.array(v.unknown())),
      bandwidth: v.optional(v.unknown()),
    }),
  ),
});

export type NetworkInput = v.InferOutput<typeof networkSchema>;

/** The keys a schema declares, for {@link foldKeys}. */
export function shapeOf(schema: unknown): KeyShape | true {
  if (typeof schema !== "object" || schema === null) return true;
  if ("wrapped" in schema) return shapeOf(schema.wrapped);
  if ("item" in schema) {
    const item = shapeOf(schema.item);
    return item === true ? true : [item];
  }
  if ("entries" in schema && typeof schema.entries === "object" && schema.entries !== null) {
    return Object.fromEntries(Object.entries(schema.entries).map(([key, entry]) => [key, shapeOf(entry)]));
  }
  return true;
}
