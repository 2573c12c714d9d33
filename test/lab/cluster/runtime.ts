import * as v from "valibot";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import type { Address } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { type CallOutcome, type Configuration, startPlugin } from "../cni.ts";
import type { LabNode, LabPod } from "../lab.ts";

/** A network configuration list as a runtime reads it: unknown fields of a plugin are for the plugin. */
const listSchema = v.looseObject({
  cniVersion: v.string(),
  name: v.string(),
  plugins: v.pipe(
    v.array(v.looseObject({ type: v.string(), capabilities: v.optional(v.record(v.string(), v.boolean())) })),
    v.minLength(1),
  ),
});

type NetworkList = v.InferOutput<typeof listSchema>;

/**
 * Returns the file of the network that a runtime attaches pods to: the first by name of the configuration files
 * (libcni, ConfFiles); undefined while there is none, when the kubelet reports the node's network as not ready.
 */
function networkFile(names: readonly string[]): string | undefined {
  return names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort()[0];
}

/** Reads a network configuration list. @throws ValiError for anything else */
function parseNetwork(text: string): NetworkList {
  return v.parse(listSchema, JSON.parse(text));
}

/**
 * Returns a plugin's standard input (CNI specification, section 4): its part of the list with the list's name and
 * version, the result of the plugin before it, and those of the runtime's offers that it has the capability for.
 *
 * @param offered runtimeConfig by capability
 */
function pluginRequest(
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

/** A sandbox and its pod, as the kubelet describes it to the runtime. */
export interface Sandbox {
  readonly namespace: LabPod;
  readonly podNamespace: string;
  readonly podName: string;
  readonly uid: string;
  /** Values by capability: `portMappings`, `bandwidth` and others. */
  readonly runtimeConfig: Readonly<Record<string, unknown>>;
}

/** The result of attaching a sandbox. */
export interface Attachment {
  readonly addresses: readonly Address[];
  /** The duration of the network's plugins. */
  readonly milliseconds: number;
}

/** The directories that a node's runtime uses. */
export interface RuntimeDirectories {
  readonly configurations: string;
  readonly binaries: string;
  /** The directory of host-local's reservations, which on a real machine is below /var/lib/cni. */
  readonly reservations: string;
}

const INTERFACE = "eth0";
/** The network that containerd attaches first, whatever the node's network is. */
const LOOPBACK: NetworkList = { cniVersion: "1.0.0", name: "cni-loopback", plugins: [{ type: "loopback" }] };

const resultSchema = v.looseObject({ ips: v.array(v.looseObject({ address: v.string() })) });

/** A part of a container runtime: it attaches sandboxes with the current contents of the node's directories. */
export class ContainerRuntime {
  readonly #node: LabNode;
  readonly #directories: RuntimeDirectories;
  /** The list and result of each sandbox, which its DEL needs again (libcni's cache). */
  readonly #attached = new Map<string, { readonly list: NetworkList; readonly result: unknown }>();

  constructor(node: LabNode, directories: RuntimeDirectories) {
    this.#node = node;
    this.#directories = directories;
    mkdirSync(directories.reservations, { recursive: true });
  }

  /** Whether pods can be attached: NetworkReady of the CRI. */
  get isNetworkReady(): boolean {
    return this.#network() !== undefined;
  }

  /** Attaches a sandbox. @throws Error while the network is not ready, and with a plugin's message when it fails */
  async attach(sandbox: Sandbox): Promise<Attachment> {
    const list = this.#network();
    if (list === undefined) throw new Error(`${this.#node.name}: cni plugin not initialized`);
    for (const plugin of LOOPBACK.plugins) await this.#call("ADD", LOOPBACK, plugin, sandbox);
    let result: unknown;
    let milliseconds = 0;
    for (const plugin of list.plugins) {
      const outcome = await this.#call("ADD", list, plugin, sandbox, result);
      result = outcome.result;
      milliseconds += outcome.milliseconds;
    }
    this.#attached.set(sandbox.namespace.containerId, { list, result });
    const addresses = v.parse(resultSchema, result).ips.map(({ address }) => parseCidr(address).address);
    return { addresses, milliseconds };
  }

  /**
   * Detaches a sandbox with the list it was attached with; does nothing if it is not attached.
   *
   * @returns the milliseconds that the network's plugins took
   * @throws Error with a plugin's message when it fails
   */
  async detach(sandbox: Sandbox): Promise<number> {
    const { containerId } = sandbox.namespace;
    const attached = this.#attached.get(containerId);
    if (attached === undefined) return 0;
    const { list, result } = attached;
    let milliseconds = 0;
    for (const plugin of list.plugins.toReversed()) {
      milliseconds += (await this.#call("DEL", list, plugin, sandbox, result)).milliseconds;
    }
    for (const plugin of LOOPBACK.plugins) await this.#call("DEL", LOOPBACK, plugin, sandbox);
    this.#attached.delete(containerId);
    return milliseconds;
  }

  #network(): NetworkList | undefined {
    const { configurations } = this.#directories;
    if (!existsSync(configurations)) return undefined;
    const name = networkFile(readdirSync(configurations));
    return name === undefined ? undefined : parseNetwork(readFileSync(`${configurations}/${name}`, "utf8"));
  }

  async #call(
    command: "ADD" | "DEL",
    list: NetworkList,
    plugin: NetworkList["plugins"][number],
    { namespace, podNamespace, podName, uid, runtimeConfig }: Sandbox,
    previous?: unknown,
  ): Promise<CallOutcome> {
    const { containerId, path } = namespace;
    const call = startPlugin(this.#node, {
      command,
      executable: `${this.#directories.binaries}/${plugin.type}`,
      configuration: this.#withReservations(pluginRequest(list, plugin, previous, runtimeConfig)),
      environment: {
        CNI_CONTAINERID: containerId,
        CNI_NETNS: path,
        CNI_IFNAME: list === LOOPBACK ? "lo" : INTERFACE,
        CNI_ARGS:
          `IgnoreUnknown=1;K8S_POD_NAMESPACE=${podNamespace};K8S_POD_NAME=${podName};` +
          `K8S_POD_INFRA_CONTAINER_ID=${containerId};K8S_POD_UID=${uid}`,
      },
    });
    const outcome = await call.outcome;
    if (outcome.exitCode === 0) return outcome;
    const words = outcome.error?.msg ?? `${outcome.stdout}${outcome.stderr}`.trim();
    throw new Error(
      `${command} ${podNamespace}/${podName}: ${plugin.type}: ${outcome.signal ?? outcome.exitCode}: ${words}`,
    );
  }

  /**
   * Gives each node its own reservations, since all nodes of a lab share one file system; the rest stays as installed.
   */
  #withReservations(request: Readonly<Record<string, unknown>>): Configuration {
    const { ipam } = request;
    if (typeof ipam !== "object" || ipam === null) return request;
    return { ...request, ipam: { ...ipam, dataDir: this.#directories.reservations } };
  }
}
