import * as v from "valibot";

/** A network configuration list as a runtime reads it: unknown fields of a plugin are for the plugin. */
const listSchema = v.looseObject({
  cniVersion: v.string(),
  name: v.string(),
  plugins: v.pipe(
    v.array(v.looseObject({ type: v.string(), capabilities: v.optional(v.record(v.string(), v.boolean())) })),
    v.minLength(1),
  ),
});

export type NetworkList = v.InferOutput<typeof listSchema>;

/**
 * Returns the file of the network that a runtime attaches pods to: the first by name of the configuration files
 * (libcni, ConfFiles); undefined while there is none, when the kubelet reports the node's network as not ready.
 */
export function networkFile(names: readonly string[]): string | undefined {
  return names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort()[0];
}

/** Reads a network configuration list. @throws ValiError for anything else */
export function parseNetwork(text: string): NetworkList {
  return v.parse(listSchema, JSON.parse(text));
}

/**
 * Returns a plugin's standard input (CNI specification, section 4): its part of the list with the list's name and
 * version, the result of the plugin before it, and those of the runtime's offers that it has the capability for.
 *
 * @param offered runtimeConfig by capability
 */
export function pluginRequest(
  list: NetworkList,
  plugin: NetworkList["plugins"][number],
  prevResult: unknown,
  offered: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const { capabilities = {}, ...own } = plugin;
  const wanted = Object.entries(offered).filter(([name]) => capabilities[name] === true);
  return {
    ...own,
    cniVersion: list.cniVersion,
    name: list.name,
    ...(prevResult === undefined ? {} : { prevResult }),
    ...(wanted.length === 0 ? {} : { runtimeConfig: Object.fromEntries(wanted) }),
  };
}
