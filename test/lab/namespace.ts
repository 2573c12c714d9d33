import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type { ProgramMachine } from "../../kernel/bpf/own_program.ts";
import { closeNamespace, insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { startNotificationThread } from "../../kernel/notifications/thread.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { dumpLinks, type Link, parseLink } from "../../kernel/route/link.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { LabCalls } from "./libc.ts";

/** The largest standard output of a program in bytes: the listing of a thousand pods' rules has some megabytes. */
const LARGEST_OUTPUT = 64 * 1024 * 1024;

/** Whether this kernel has IPv6, which may be off since its boot (ipv6.disable=1). */
export const HAS_IPV6 = existsSync("/proc/sys/net/ipv6");

/** Carries out requests in order. @throws NetlinkError the first refusal, after all have been carried out */
export function requestAll(socket: NetlinkSocket, requests: readonly Request[]): void {
  for (const { error } of socket.batch(requests)) if (error !== undefined) throw error;
}

/** A network namespace of a lab: a node, a router or a pod. */
export class LabNamespace {
  /** Its name within the lab ("node1"). */
  readonly name: string;
  readonly handle: NetworkNamespace;
  readonly calls: LabCalls;
  /** The lab's own directory. */
  readonly scratch: string;
  readonly #home: NetworkNamespace;
  #route: NetlinkSocket | undefined;
  #nftables: NftablesSocket | undefined;

  constructor(name: string, handle: NetworkNamespace, home: NetworkNamespace, calls: LabCalls, scratch: string) {
    this.name = name;
    this.scratch = scratch;
    this.handle = handle;
    this.calls = calls;
    this.#home = home;
  }

  /** The file it is mounted on: the value of CNI_NETNS, which `nsenter --net=` takes, too. */
  get path(): string {
    return this.handle.path;
  }

  /** Runs a synchronous action with this thread inside; see {@link insideNamespace}. */
  inside<T>(action: () => T): T {
    return insideNamespace(this.calls, this.#home, this.handle, action);
  }

  /** Starts a thread that reports what happens in here. */
  notifications(calls: LabCalls = this.calls): KernelNotifications {
    return startNotificationThread({ ...calls, socket: (...given) => this.inside(() => calls.socket(...given)) });
  }

  /** The lab's netlink socket in here; {@link close} closes it. */
  get route(): NetlinkSocket {
    this.#route ??= this.inside(() => openRouteSocket(this.calls));
    return this.#route;
  }

  /** The parts that our BPF programs need. */
  get programs(): ProgramMachine & { readonly syscalls: LabCalls } {
    return { syscalls: this.calls, socket: this.route };
  }

  links(): readonly Link[] {
    return this.route.dump(dumpLinks()).map(parseLink);
  }

  /** @throws Error when there is no link of this name */
  link(name: string): Link {
    const link = findLink(this.route, { name });
    if (link === undefined)
      throw new Error(
        `${this.name} has no link ${name}; it has ${this.links()
          .map((l) => l.name)
          .join(", ")}`,
      );
    return link;
  }

  readSysctl(key: string): string | undefined {
    return this.inside(() => procSysctl(this.calls).read(key));
  }

  /** Writes a setting; one of IPv6 only where the kernel has IPv6. @throws Error when the kernel has no such setting */
  writeSysctl(key: string, value: string): void {
    if (key.startsWith("net/ipv6/") && !HAS_IPV6) return;
    if (!this.inside(() => procSysctl(this.calls).write(key, value)))
      throw new Error(`${this.name}: this kernel has no sysctl ${key}`);
  }

  /**
   * Runs a program in here to its end. The lock of iptables-legacy is a file of the lab, not of the machine's /run.
   *
   * @param file a program of the machine ("nft", "ip")
   * @returns its standard output
   * @throws Error with its output, unless it exits with 0
   */
  exec(file: string, args: readonly string[], input = ""): string {
    const { status, stdout, stderr, error } = this.inside((): SpawnSyncReturns<string> =>
      spawnSync(file, args, {
        input,
        encoding: "utf8",
        env: { ...process.env, XTABLES_LOCKFILE: path.join(this.scratch, "xtables.lock") },
        timeout: 100_000,
        maxBuffer: LARGEST_OUTPUT,
      }),
    );
    if (status === 0) return stdout;
    throw new Error(`${this.name}: ${file} ${args.join(" ")}: ${error?.message ?? (stderr + stdout).trim()}`);
  }

  /**
   * Returns the listing of all tables by nft. It is read again when a program has committed meanwhile: the rules of a
   * chain that is being replaced may be listed twice.
   *
   * @param options of nft ("--stateless")
   */
  ruleset(...options: readonly string[]): string {
    this.#nftables ??= this.inside(() => new NftablesSocket(this.calls));
    for (let triesLeft = 20; triesLeft > 0; triesLeft--) {
      const generation = this.#nftables.generation();
      const listing = this.exec("nft", [...options, "list", "ruleset"]);
      if (this.#nftables.generation() === generation) return listing;
    }
    throw new Error(`${this.name}: its tables changed during each of 20 listings`);
  }

  close(): void {
    this.#nftables?.close();
    this.#route?.close();
    closeNamespace(this.calls, this.handle);
  }
}
