import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { text } from "node:stream/consumers";
import { canonicalRangeSets, type RangeInput } from "../../../ipam/range.ts";
import { AddressStore, type Owner } from "../../../ipam/store.ts";
import { acquireFileLock } from "../../../kernel/file_lock.ts";
import { parseAddress, tryParseAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { realFileSystem } from "./address_store.ts";

/** The network of all attachments in these tests. */
export const NETWORK = "podnet";

/** Ranges that hold 13 pods each, so that a few dozen allocations pass their end. */
export const SMALL: readonly (readonly RangeInput[])[] = [[{ subnet: "10.1.2.0/28" }], [{ subnet: "fd00:1::/124" }]];

/** The allocated addresses, or the message of the refusal. */
export type Outcome = { readonly ips: readonly string[] } | { readonly refused: string };

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Go's host-local, or an executable that stands in for it, on a data directory. */
export class HostLocal {
  readonly #executable: string;
  readonly #directory: string;

  constructor(executable: string, directory: string) {
    this.#executable = executable;
    this.#directory = directory;
  }

  /** Starts the executable and waits for its answer. */
  async call(
    command: "ADD" | "CHECK" | "DEL",
    sets: readonly (readonly RangeInput[])[],
    owner: Owner,
    requested: readonly string[] = [],
  ): Promise<Outcome> {
    const ipam = { type: "host-local", dataDir: this.#directory, ranges: sets };
    const args = { cni: { ips: requested } };
    const child = spawn(this.#executable, {
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: owner.containerId,
        CNI_IFNAME: owner.ifname,
        CNI_NETNS: "/run/netns/none",
        // Address management by itself needs no namespace; without this variable host-local opens the path.
        CNI_NETNS_OVERRIDE: "1",
        CNI_PATH: "/",
      },
    });
    child.stdin.end(JSON.stringify({ cniVersion: "1.0.0", name: NETWORK, type: "bridge", ipam, args, prevResult: {} }));
    const answer: unknown = JSON.parse((await text(child.stdout)) || "{}");
    assert.ok(isObject(answer));
    if (typeof answer["msg"] === "string") return { refused: answer["msg"] };
    const ips = Array.isArray(answer["ips"]) ? answer["ips"] : [];
    return { ips: ips.map((ip: unknown) => (isObject(ip) ? String(ip["address"]) : "")) };
  }
}

/** Opens our store, which runs in this process. */
export function ours(directory: string): AddressStore {
  const syscalls = nodeSyscalls();
  return new AddressStore({
    directory,
    network: NETWORK,
    fileSystem: realFileSystem,
    lock: { acquire: (path) => acquireFileLock(syscalls, path) },
  });
}

/** Answers an ADD from our store as {@link HostLocal} does. */
export function ourAdd(
  store: AddressStore,
  sets: readonly (readonly RangeInput[])[],
  owner: Owner,
  requested: readonly string[] = [],
): Outcome {
  try {
    const wanted = requested.map((one) => parseAddress(one));
    const allocations = store.allocate(canonicalRangeSets(sets, "ipam.ranges"), owner, wanted);
    return { ips: allocations.map(({ address }) => formatCidr(address)) };
  } catch (error) {
    assert.ok(error instanceof Error);
    return { refused: error.message };
  }
}

/** Returns the interface of the pod with this number. */
export function pod(n: number): Owner {
  return { containerId: `pod-${n}`, ifname: "eth0" };
}

/** Returns the addresses that have a reservation file. */
export function heldAddresses(directory: string): readonly string[] {
  return readdirSync(`${directory}/${NETWORK}`).filter((name) => tryParseAddress(name) !== undefined);
}
