import { writeFileSync } from "node:fs";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Program } from "./program.ts";
import type { Zone } from "./services.ts";

/** Other DNS servers, by the domain for which they answer. */
export type Forwarders = Readonly<Record<string, string>>;

/**
 * Debian's dnsmasq in place of a cluster's DNS server: in a namespace, on port 53 of all its addresses, by UDP and TCP.
 *
 * It logs every query, caches no answers, and does not use the machine's own names and servers.
 */
export class DnsServer {
  readonly namespace: LabNamespace;
  readonly #lab: Lab;
  readonly #args: readonly string[];
  #program: Program | undefined;
  /** The logs of the programs that have ended. */
  #oldLogs = "";

  constructor(lab: Lab, namespace: LabNamespace, { hosts, services }: Zone, forwarders: Forwarders = {}) {
    this.#lab = lab;
    this.namespace = namespace;
    const hostsFile = `${lab.scratch}/${namespace.name}.hosts`;
    writeFileSync(hostsFile, hosts.map(([address, name]) => `${formatAddress(address)} ${name}\n`).join(""));
    this.#args = [
      "--keep-in-foreground",
      "--conf-file=/dev/null",
      "--pid-file=",
      "--user=root",
      "--no-resolv",
      "--no-hosts",
      "--cache-size=0",
      "--log-queries=extra",
      "--log-facility=-",
      "--edns-packet-max=4096",
      "--local=/cluster.local/",
      `--addn-hosts=${hostsFile}`,
      ...services.map(({ name, target, port }) => `--srv-host=${name},${target},${port}`),
      ...Object.entries(forwarders).map(([domain, server]) => `--server=/${domain}/${server}`),
    ];
  }

  /** Starts the server; resolves when it answers. */
  async start(): Promise<void> {
    this.#program = new Program(this.#lab, this.namespace, "dnsmasq", this.#args);
    await this.#program.written(/started, version/);
  }

  async stop(): Promise<void> {
    await this.#program?.stop();
    this.#oldLogs += this.#program?.log ?? "";
    this.#program = undefined;
  }

  /** Returns the addresses from which a name was asked for, each once. */
  sourcesOf(name: string): readonly string[] {
    const sources = `${this.#oldLogs}${this.#program?.log ?? ""}`.split("\n").map((line) => {
      const { asked, source } = / query\[[A-Z]+\] (?<asked>\S+) from (?<source>\S+)/.exec(line)?.groups ?? {};
      return asked === name ? source : undefined;
    });
    return [...new Set(sources.filter((source) => source !== undefined))];
  }
}
