import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import * as v from "valibot";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { type Address, parseAddress } from "../../../../kernel/ip/address.ts";
import {
  CLONE_NEWNET,
  closeNamespace,
  currentNamespace,
  enterNamespace,
  type NetworkNamespace,
} from "../../../../kernel/network_namespace.ts";
import { check } from "../../../../kernel/syscall/syscalls.ts";
import { readList } from "../../../../policyd/installation/list_text.ts";
import { PLUGIN } from "../../../../cni/executables.ts";
import { configurationPath } from "../../own_lists.ts";
import type { NodePlace } from "../../place.ts";
import type { ProbeCalls } from "./tracer.ts";

/** The pods' containers. A later probe deletes those of one that was killed. */
const CONTAINERS = ["drawbridge-probe-1", "drawbridge-probe-2"] as const;
/** An ADD may wait for the daemon for ten seconds. */
const MILLISECONDS = 60_000;
const CNI_VERSION = "1.0.0";

/** A pod of the probe. Its namespace lasts as long as this process, also where that is killed. */
export interface ProbePod {
  readonly namespace: NetworkNamespace;
  readonly addresses: readonly Address[];
}

const resultSchema = v.object({ ips: v.array(v.object({ address: v.string() })) });
const errorSchema = v.object({ code: v.number(), msg: v.string(), details: v.optional(v.string()) });

/** The probe's pods, attached by the node's plugin with the node's own network configuration. */
export class ProbePods {
  readonly #calls: ProbeCalls;
  readonly #place: NodePlace;
  readonly #input: string;
  readonly #namespaces: NetworkNamespace[] = [];

  /** @throws DrawbridgeError ERR_UNAVAILABLE without a configuration of ours, as in a container */
  constructor(calls: ProbeCalls, place: NodePlace) {
    this.#calls = calls;
    this.#place = place;
    this.#input = ownConfiguration(configurationPath(place));
  }

  /** Attaches both pods. @throws DrawbridgeError ERR_UNAVAILABLE with the plugin's error; SyscallError */
  async attach(home: NetworkNamespace): Promise<readonly [ProbePod, ProbePod]> {
    await this.#delete();
    const [first, second] = CONTAINERS;
    return [await this.#add(home, first), await this.#add(home, second)];
  }

  /** Deletes both pods through the plugin, then their namespaces. @throws DrawbridgeError ERR_UNAVAILABLE */
  async detach(): Promise<void> {
    try {
      await this.#delete();
    } finally {
      for (const namespace of this.#namespaces.splice(0)) closeNamespace(this.#calls, namespace);
    }
  }

  async #delete(): Promise<void> {
    for (const container of CONTAINERS) await this.#plugin("DEL", container, "");
  }

  async #add(home: NetworkNamespace, container: string): Promise<ProbePod> {
    check(this.#calls.unshare(CLONE_NEWNET), "make a network namespace");
    const namespace = currentNamespace(this.#calls);
    this.#namespaces.push(namespace);
    enterNamespace(this.#calls, home);
    const output = await this.#plugin("ADD", container, `/proc/${process.pid}/fd/${namespace.fd}`);
    const { ips } = v.parse(resultSchema, JSON.parse(output));
    return { namespace, addresses: ips.map(({ address }) => parseAddress(address.split("/")[0] ?? "")) };
  }

  /** @returns what it printed */
  #plugin(command: "ADD" | "DEL", container: string, namespace: string): Promise<string> {
    const file = `${this.#place.binaryDirectory}/${PLUGIN}`;
    const failed = (why: string): DrawbridgeError =>
      new DrawbridgeError("ERR_UNAVAILABLE", `${file} ${command} ${container}: ${why}`);
    return new Promise((resolve, reject) => {
      const child = spawn(file, {
        env: {
          CNI_COMMAND: command,
          CNI_CONTAINERID: container,
          CNI_NETNS: namespace,
          CNI_IFNAME: "eth0",
          CNI_PATH: this.#place.binaryDirectory,
        },
        cwd: "/",
        stdio: ["pipe", "pipe", "ignore"],
        timeout: MILLISECONDS,
        // A terminal's SIGINT is for us: the plugin ends what it has begun.
        detached: true,
      });
      let output = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
      child.on("error", (error) => reject(failed(error.message)));
      child.on("close", (code, signal) => {
        if (code === 0) resolve(output);
        else reject(failed(errorIn(output) ?? `it ended with ${signal ?? `code ${code}`}`));
      });
      // The plugin may end without having read its input.
      child.stdin.on("error", () => {});
      child.stdin.end(this.#input);
    });
  }
}

function errorIn(output: string): string | undefined {
  try {
    const { code, msg, details = "" } = v.parse(errorSchema, JSON.parse(output));
    return `${msg}${details === "" ? "" : `: ${details}`} (code ${code})`;
  } catch {
    return undefined;
  }
}

/** Returns the entry of our plugin in the node's list, as a runtime gives it to the plugin. */
function ownConfiguration(path: string): string {
  let data: Uint8Array;
  try {
    data = readFileSync(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new DrawbridgeError("ERR_UNAVAILABLE", `${why}; a probe runs on the node itself, not in a container`);
  }
  const list = readList(data);
  const own = "unreadable" in list ? undefined : list.entries.find(({ type }) => type === PLUGIN);
  if (own === undefined || "unreadable" in list) {
    throw new DrawbridgeError("ERR_UNAVAILABLE", `${path} has no plugin of type ${PLUGIN}`);
  }
  return JSON.stringify({ ...own.value, name: list.name, cniVersion: CNI_VERSION });
}
