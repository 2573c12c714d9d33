import * as v from "valibot";

/** A network configuration list as a runtime reads it: what it does not know of a plugin is the plugin's own. */
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
 * The file of the network that a runtime attaches pods to: the first by name of those for configurations (libcni, ConfFiles);
 * undefined while there is none, which is when the kubelet calls the node's network not ready.
 */
export function networkFile(names: readonly string[]): string | undefined {
  return names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort()[0];
}

/** @throws ValiError for what is no network configuration list */
export function parseNetwork(text: string): NetworkList {
  return v.parse(listSchema, JSON.parse(text));
}

/**
 * What a plugin of a list gets on its standard input (CNI specification, section 4): its part of the list with the list's
 * name and version, the result of the plugin before it, and of what the runtime offers that which it says it can do.
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
