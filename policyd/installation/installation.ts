import type { Machine } from "../machine.ts";
import { DrawbridgeError, problemOf } from "../../kernel/error.ts";
import { SMALLEST_IPV6_MTU } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily } from "../../kernel/ip/cidr.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { problemLine } from "../problems/problem.ts";
import type { ObjectChange } from "../../objects/model.ts";
import type { Condition, ObjectConsumer } from "../component.ts";
import { nodeNamed } from "../events/notice.ts";
import { NodeProblems } from "../events/node_problems.ts";
import { type HostFiles, hostFiles } from "./host_files.ts";
import { type InstallationPlaces, Installer } from "./installer.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { CONFIGURATION_FILE } from "../configuration/schema.ts";
import type { RouteReconciler } from "../routes/route_reconciler.ts";
import { type NetworkParts, ownPart } from "./configuration_list.ts";
import { ListFile } from "./list_file.ts";
import type { JsonObject } from "./list_text.ts";
import type { OwnPart } from "./merged_list.ts";
import { podRanges, textOf } from "./pod_ranges.ts";
import { Primary } from "./primary.ts";

/** Milliseconds between two passes, so that a program that contests a file with us does not take all of our time. */
const PAUSE = 200;
const FIRST_RETRY = 1000;
/** The bits of a file's mode by which somebody may execute it. */
const EXECUTABLE = 0o111;

export interface InstallationParts extends Pick<Machine, "clock" | "logger" | "events" | "nodeName" | "judge"> {
  readonly files: HostFiles;
  readonly places: InstallationPlaces;
  /** Prefixes of this node's pods while its Node object has none. */
  readonly podCidrs: readonly Cidr[];
  readonly network: Pick<NetworkParts, "bridge" | "socketPath" | "stateDirectory">;
  /** The administrator's entries for the list, which follow our own. */
  readonly chain: readonly JsonObject[];
  /** The name of the configuration that should come before ours. */
  readonly primary: string | undefined;
  /** The pods' MTU in bytes, read in each pass; undefined while it is unknown. */
  readonly mtu: () => number | undefined;
  /** Milliseconds between two passes when nothing seems to have changed. */
  readonly syncPeriod: number;
}

/**
 * Maintains the plugin and the network's configuration in the runtime's directories while the daemon runs. Both stay
 * there when it ends, since pods still have to be removed (D5, STATE-01).
 *
 * The executable comes first. The configuration, which makes the node ready for pods, follows when the socket listens,
 * everything was read once, the rules are in force and this node's pod CIDRs are known (POD-17).
 */
export class Installation implements ObjectConsumer {
  readonly #parts: InstallationParts;
  readonly #installer: Installer;
  readonly #list: ListFile;
  readonly #primary: Primary;
  readonly #watches = new Map<string, { readonly identity: string; close(): void }>();
  readonly #loop: ControlLoop;
  /** Whether what killed daemons have left is removed. */
  #isClean = false;
  #isSynced = false;
  #areRulesInForce = false;
  /** The ranges in the configuration, from when this daemon first writes it. */
  #ranges: readonly Cidr[] | undefined;
  /** Milliseconds until the next pass, where the last one waits for another program. */
  #wait: number | undefined;
  #yielded = "";
  #isInstalled = false;
  readonly #problems: NodeProblems;
  #retry = FIRST_RETRY;

  constructor(parts: InstallationParts) {
    this.#parts = parts;
    const { files, clock, places } = parts;
    this.#problems = new NodeProblems(parts, "InstallationProblem", "installation of the plugin");
    this.#installer = new Installer(files, places);
    this.#list = new ListFile(files, places.configurations, clock);
    this.#primary = new Primary(files, places.configurations, parts.primary);
    this.#loop = new ControlLoop({ clock, pass: () => this.#pass(), pause: () => PAUSE });
  }

  /** Starts with the executable. The daemon's socket must listen already. */
  start(): void {
    this.#loop.run();
  }

  /** Whether runtimes have everything they need to call the plugin. */
  get isInstalled(): boolean {
    return this.#isInstalled;
  }

  /** Part of the daemon's readiness: without it, no pod can be attached. */
  get condition(): Condition {
    const reason = (): string => this.#problems.present[0] ?? "the plugin is not installed yet";
    return { name: "installation", missing: () => (this.#isInstalled ? undefined : reason()) };
  }

  apply(changes: readonly ObjectChange[]): void {
    if (this.#isSynced && changes.some(({ kind }) => kind === "Node")) this.#loop.run();
  }

  synced(): void {
    this.#isSynced = true;
    this.#loop.run();
  }

  /** Called when the kernel has the desired state; only the first call matters, and starts no work in this turn. */
  rulesInForce(): void {
    if (this.#areRulesInForce) return;
    this.#areRulesInForce = true;
    this.#loop.within(0);
  }

  /** Applies a new MTU to pods that are attached from then on; the others keep theirs. */
  mtuChanged(): void {
    if (this.#isSynced) this.#loop.run();
  }

  problems(): readonly string[] {
    return this.#problems.present;
  }

  async stop(): Promise<void> {
    const end = this.#loop.stop();
    for (const watch of this.#watches.values()) watch.close();
    this.#watches.clear();
    await end;
  }

  #nextPass(): number {
    if (this.#wait !== undefined) return this.#wait;
    if (this.#isInstalled) return this.#parts.syncPeriod;
    const wait = Math.min(this.#retry, this.#parts.syncPeriod);
    this.#retry = wait * 2;
    return wait;
  }

  async #pass(): Promise<number> {
    const problems: string[] = [];
    this.#wait = undefined;
    try {
      this.#isInstalled = await this.#install(problems);
      if (this.#isInstalled) this.#retry = FIRST_RETRY;
    } catch (error) {
      this.#isInstalled = false;
      if (!(error instanceof DrawbridgeError)) throw error;
      problems.push(problemLine("cni-plugin", `plugin not installed: ${error.message}`));
    }
    this.#problems.set(problems);
    return this.#nextPass();
  }

  /** @returns whether everything is in place */
  async #install(problems: string[]): Promise<boolean> {
    const { places } = this.#parts;
    for (const directory of [places.binaries, places.configurations]) await this.#follow(directory, problems);
    if (!this.#isClean) await this.#installer.removeLeftovers();
    if (this.#loop.isStopped) return false;
    this.#isClean = true;
    const names = await this.#installer.installExecutable();
    if (names.length > 0) this.#tell("plugin installed", { directory: places.binaries, names: names.join(", ") });
    const own = this.#configuration(problems);
    const isInPlace = own !== undefined && !this.#loop.isStopped && (await this.#reconcileList(own, problems));
    if (isInPlace) await this.#installer.removeDetachList();
    const first = await this.#primary.problem();
    if (first === "perhaps unfinished") this.#wait ??= PAUSE;
    else if (first !== undefined) problems.push(problemLine("cni-configuration", first));
    return isInPlace;
  }

  /** @returns whether our part of the list is in place */
  async #reconcileList(own: OwnPart, problems: string[]): Promise<boolean> {
    const { places, logger, events, nodeName } = this.#parts;
    const path = `${places.configurations}/${CONFIGURATION_FILE}`;
    const { kind, wait, isPutBack, replaced, merged } = await this.#list.reconcile(own);
    for (const note of replaced) {
      logger.warn("network configuration could not be used and is replaced", { reason: note });
      events.tell({ regarding: nodeNamed(nodeName), reason: "InstallationProblem", note });
    }
    if (kind === "written") {
      const fields = { path, ranges: textOf(this.#ranges ?? []) };
      if (isPutBack) this.#tell("network configuration written", fields);
      else logger.info("network configuration written", fields);
    }
    const yielded = merged?.yielded.join(", ") ?? this.#yielded;
    if (yielded !== this.#yielded && yielded !== "")
      logger.info("another plugin of the network configuration acts on capabilities", { path, capabilities: yielded });
    this.#yielded = yielded;
    await this.#reportLacking(merged?.others ?? [], problems);
    for (const type of merged?.taken ?? []) {
      problems.push(
        `cniChain: ${path} has an entry of type "${type}" that another program has added, so the one of cniChain is omitted: ` +
          "remove one of the two",
      );
    }
    if (this.#list.contest.isContested) {
      problems.push(
        `another program keeps changing our entry, or the name or version of the list, in ${path}: it is rewritten less and less ` +
          "often; stop that program, or have it change only entries of its own",
      );
    }
    this.#wait = wait;
    return kind !== "waiting";
  }

  /** Reports plugins of the list that runtimes cannot start. A link may lead out of the daemon's container. */
  async #reportLacking(types: readonly string[], problems: string[]): Promise<void> {
    const { files, places } = this.#parts;
    for (const type of types) {
      const path = `${places.binaries}/${type}`;
      const look = type.includes("/") ? undefined : await files.look(path);
      if (look?.isLink === true && !look.isFile) continue;
      const lack = look?.isFile === true ? ((look.mode & EXECUTABLE) === 0 ? "executable" : undefined) : "a file";
      if (lack === undefined) continue;
      const text =
        `${path} is not ${lack}, so every pod of this network fails to start: install it, or take its entry out of ` +
        "the network configuration (cniChain)";
      problems.push(problemLine("cni-plugin", text));
    }
  }

  /** Returns our part of the network's configuration; undefined while it should not exist. */
  #configuration(problems: string[]): OwnPart | undefined {
    if (!this.#isSynced || !this.#areRulesInForce) return undefined;
    const { nodeName, judge, podCidrs, network, mtu } = this.#parts;
    const found = podRanges(nodeName, judge, podCidrs);
    const isMissing = (this.#ranges ?? found.ranges) === undefined;
    problems.push(...found.problems.map((one) => (isMissing ? problemLine("cni-configuration", one) : one)));
    // Pods exist by then, and other nodes may still know only the way to the old ranges.
    if (this.#ranges !== undefined && found.ranges !== undefined && textOf(found.ranges) !== textOf(this.#ranges)) {
      problems.push(
        `Node ${nodeName} has pod CIDRs ${textOf(found.ranges)} now; pods get addresses of ${textOf(this.#ranges)} until ` +
          "policyd restarts: drain the node first",
      );
    }
    this.#ranges ??= found.ranges;
    if (this.#ranges === undefined) return undefined;
    const bytes = mtu();
    const problem = mtuProblem(bytes, this.#ranges, nodeName);
    if (problem !== undefined) problems.push(problemLine("cni-configuration", problem));
    if (bytes === undefined || problem !== undefined) return undefined;
    return ownPart({ ...network, ranges: this.#ranges, mtu: bytes }, this.#parts.chain);
  }

  /** Creates and watches a directory, again where another directory has taken over its name. */
  async #follow(directory: string, problems: string[]): Promise<void> {
    const { files, syncPeriod } = this.#parts;
    await files.makeDirectory(directory);
    const identity = (await files.look(directory))?.identity ?? "";
    if (this.#watches.get(directory)?.identity === identity || this.#loop.isStopped) return;
    const forget = (): void => {
      this.#watches.get(directory)?.close();
      this.#watches.delete(directory);
    };
    forget();
    const problem = problemOf(() => {
      const watch = files.watch(directory, () => this.#loop.enqueue(), forget);
      this.#watches.set(directory, { identity, close: () => watch.close() });
    });
    if (problem !== undefined) problems.push(`${problem}; it is looked at every ${syncPeriod} ms`);
  }

  /** Logs a write, as a repair where a later pass finds the file missing or changed. */
  #tell(message: string, fields: Readonly<Record<string, string>>): void {
    const { logger } = this.#parts;
    if (this.#isInstalled || this.#list.contest.isContested)
      logger.warn(`${message} again: another program had removed or changed it`, fields);
    else logger.info(message, fields);
  }
}

/** Returns why the plugin cannot attach pods with an MTU; undefined where it can. @param bytes undefined while unknown */
function mtuProblem(bytes: number | undefined, ranges: readonly Cidr[], nodeName: string): string | undefined {
  if (bytes === undefined)
    return (
      `MTU of pods is not known: it is that of the interface with the first InternalIP of Node ${nodeName}; ` +
      "expected such an address, on an interface that is up"
    );
  if (bytes >= SMALLEST_IPV6_MTU || ranges.every((range) => cidrFamily(range) === 4)) return undefined;
  return (
    `MTU of pods is ${bytes}; expected ${SMALLEST_IPV6_MTU} at least, since they have IPv6: make the MTU of the interface by ` +
    `which packets leave to other nodes larger by ${SMALLEST_IPV6_MTU - bytes}, or set encapsulation: never unless it is`
  );
}

/** Returns the part that keeps the plugin installed, where configured; it does nothing before it is started. */
export function openInstallation(
  configuration: Configuration,
  machine: Machine,
  routes: Pick<RouteReconciler, "podMtu" | "podMtuChanged">,
): Installation | undefined {
  if (!configuration.installCni) return undefined;
  const { cniSourceDirectory, cniBinDirectory, cniConfDirectory, cniChain, cniPrimary } = configuration;
  const installation = new Installation({
    ...machine,
    files: hostFiles,
    places: { source: cniSourceDirectory, binaries: cniBinDirectory, configurations: cniConfDirectory },
    podCidrs: configuration.podCIDRs,
    network: configuration,
    chain: cniChain,
    primary: cniPrimary,
    mtu: () => routes.podMtu,
    syncPeriod: configuration.syncPeriod,
  });
  machine.ruleset.committed.subscribe(() => installation.rulesInForce());
  routes.podMtuChanged.subscribe(() => installation.mtuChanged());
  return installation;
}
