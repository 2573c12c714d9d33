import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { DrawbridgeError } from "../../kernel/error.ts";
import { closeNamespace, currentNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import { changeLink, deleteLink } from "../../kernel/route/link.ts";
import { type LabCalls, labCalls } from "./libc.ts";
import { LabNamespace, requestAll } from "./namespace.ts";
import { markChildren } from "./orphans.ts";
import { currentOwner, ownedName } from "./owner.ts";
import { pinNewNamespace, unpin } from "./pin.ts";
import { namespacesIn, sweepDeadLabs } from "./sweep.ts";

/** A namespace that stands for a node, with the directories of its plugin's files. */
export class LabNode extends LabNamespace {
  /** host-local's `dataDir`. */
  readonly dataDir: string;
  /** The base directory of the attachment records. */
  readonly runDir: string;

  constructor(namespace: LabNamespace, home: NetworkNamespace) {
    const { scratch } = namespace;
    super(namespace.name, namespace.handle, home, namespace.calls, scratch);
    this.dataDir = path.join(scratch, namespace.name, "networks");
    this.runDir = path.join(scratch, namespace.name, "run");
  }
}

/**
 * A namespace that stands for a pod's sandbox, as a runtime makes it: `lo` is down, and the plugin does everything
 * else.
 */
export class LabPod extends LabNamespace {
  readonly containerId: string;

  constructor(namespace: LabNamespace, home: NetworkNamespace, containerId: string) {
    super(namespace.name, namespace.handle, home, namespace.calls, namespace.scratch);
    this.containerId = containerId;
  }
}

const livingLabs = new Set<Lab>();
const calls = labCalls();

/**
 * Makes a lab, after removing the remains of dead processes' labs.
 *
 * Dispose of it (`using lab = createLab("x")`, or {@link Lab.destroy} in an `after` hook). When the process ends by
 * itself, by an uncaught exception, SIGINT, SIGTERM or SIGHUP, its labs are destroyed; after SIGKILL the next lab
 * destroys them.
 *
 * @param name letters, digits and dashes, part of the name of its directory
 * @throws SyscallError when the process may not make namespaces
 */
export function createLab(name: string): Lab {
  if (!/^[a-z0-9-]{1,32}$/.test(name))
    throw new Error(`lab name: ${JSON.stringify(name)}; expected 1 to 32 of a-z, 0-9, -`);
  sweepDeadLabs(calls);
  const lab = new Lab(name, calls);
  if (livingLabs.size === 0) installHooks();
  livingLabs.add(lab);
  return lab;
}

/**
 * Network namespaces that stand for nodes, routers and pods, and a directory for their files.
 *
 * The machine's own namespace gets no device, address, route, rule or setting: uplinks are created from one lab
 * namespace into another.
 */
export class Lab implements Disposable {
  readonly name: string;
  readonly calls: LabCalls;
  /** A directory that only this lab uses, and that is removed with it. */
  readonly scratch: string;
  readonly home: NetworkNamespace;
  readonly #namespaces = new Map<string, LabNamespace>();
  readonly #endings: (() => void)[] = [];
  #isDestroyed = false;

  constructor(name: string, systemCalls: LabCalls) {
    this.name = name;
    this.calls = systemCalls;
    const owner = currentOwner();
    markChildren(owner);
    this.home = currentNamespace(systemCalls);
    this.scratch = mkdtempSync(path.join(os.tmpdir(), `${ownedName(owner, name)}-`));
    mkdirSync(namespacesIn(this.scratch));
  }

  /** All namespaces made so far, in order. */
  get namespaces(): readonly LabNamespace[] {
    return [...this.#namespaces.values()];
  }

  /** Makes a namespace with `lo` up. @param name unique in the lab; letters, digits and dashes */
  namespace(name: string): LabNamespace {
    return withLoopback(this.#make(name, (namespace) => namespace));
  }

  node(name: string): LabNode {
    const node = withLoopback(this.#make(name, (namespace) => new LabNode(namespace, this.home)));
    mkdirSync(node.dataDir, { recursive: true });
    mkdirSync(node.runDir, { recursive: true });
    return node;
  }

  router(name = "router"): LabNamespace {
    const router = this.namespace(name);
    enableForwarding(router);
    // Without the limit of one per second, every probe without a route gets an ICMP error.
    router.writeSysctl("net/ipv4/icmp_ratelimit", "0");
    router.writeSysctl("net/ipv6/icmp/ratelimit", "0");
    return router;
  }

  pod(name: string): LabPod {
    return this.#make(name, (namespace) => new LabPod(namespace, this.home, `${this.name}-${name}`));
  }

  /** Registers an action that runs first when the lab ends, for any reason: for a process that would outlive it. */
  atEnd(action: () => void): void {
    this.#endings.push(action);
  }

  /** Removes one namespace, as at the end of a pod's sandbox. */
  remove(namespace: LabNamespace): void {
    if (!this.#namespaces.delete(namespace.name)) return;
    deleteBridges(namespace);
    namespace.close();
    unpin(this.calls, namespace.path);
  }

  /** Removes everything; a second call does nothing. Synchronous, so that it can run while the process exits. */
  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    for (const action of this.#endings) action();
    for (const namespace of this.namespaces.toReversed()) this.remove(namespace);
    // A program that was just killed may still make a file in there.
    rmSync(this.scratch, { recursive: true, force: true, maxRetries: 20 });
    closeNamespace(this.calls, this.home);
    livingLabs.delete(this);
    if (livingLabs.size === 0) removeHooks();
  }

  [Symbol.dispose](): void {
    this.destroy();
  }

  #make<T extends LabNamespace>(name: string, wrap: (namespace: LabNamespace) => T): T {
    if (!/^[a-z0-9-]{1,64}$/.test(name))
      throw new Error(`namespace name: ${JSON.stringify(name)}; expected 1 to 64 of a-z, 0-9, -`);
    if (this.#isDestroyed) throw new Error(`lab ${this.name} is destroyed`);
    if (this.#namespaces.has(name)) throw new Error(`lab ${this.name} has a namespace ${name} already`);
    const handle = pinNewNamespace(this.calls, this.home, path.join(namespacesIn(this.scratch), name));
    const namespace = wrap(new LabNamespace(name, handle, this.home, this.calls, this.scratch));
    this.#namespaces.set(name, namespace);
    for (const [key, value] of KERNEL_SETTINGS) namespace.writeSysctl(key, value);
    return namespace;
  }
}

/**
 * Deletes a namespace's bridges synchronously. The kernel holds its one lock for all network configuration meanwhile
 * and waits for RCU callbacks (br_multicast_dev_del), at times for seconds. At the namespace's own end, which comes
 * later, this would disturb the next test or measurement.
 */
function deleteBridges(namespace: LabNamespace): void {
  try {
    for (const { kind, index } of namespace.links()) {
      if (kind === "bridge") namespace.route.request(deleteLink({ index }));
    }
  } catch (error) {
    // The end of the namespace removes them anyway, and nothing may prevent the lab from ending.
    if (!(error instanceof DrawbridgeError)) throw error;
  }
}

function withLoopback<T extends LabNamespace>(namespace: T): T {
  requestAll(namespace.route, [changeLink({ name: "lo" }, { up: true })]);
  return namespace;
}

/** Turns on forwarding, for a node or router (POD-24). */
export function enableForwarding(namespace: LabNamespace): void {
  namespace.writeSysctl("net/ipv4/ip_forward", "1");
  namespace.writeSysctl("net/ipv6/conf/all/forwarding", "1");
}

/**
 * The kernel's own values of settings that a new namespace inherits from the machine's
 * (net.core.devconf_inherit_init_net), where Docker and other programs change them.
 */
const KERNEL_SETTINGS = [
  ["net/ipv4/ip_forward", "0"],
  ...["all", "default"].flatMap((which) => [
    [`net/ipv4/conf/${which}/accept_redirects`, "1"] as const,
    [`net/ipv4/conf/${which}/send_redirects`, "1"] as const,
    [`net/ipv4/conf/${which}/rp_filter`, "0"] as const,
    [`net/ipv4/conf/${which}/route_localnet`, "0"] as const,
  ]),
] as const;

const SIGNALS: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

function destroyAll(): void {
  for (const lab of livingLabs) lab.destroy();
}

/** Sends the signal again after the handler is removed, since a handler keeps Node from dying of it. */
function onSignal(signal: NodeJS.Signals): void {
  destroyAll();
  process.kill(process.pid, signal);
}

function installHooks(): void {
  process.on("exit", destroyAll);
  for (const signal of SIGNALS) process.on(signal, onSignal);
}

function removeHooks(): void {
  process.off("exit", destroyAll);
  for (const signal of SIGNALS) process.off(signal, onSignal);
}
