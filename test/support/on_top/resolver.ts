import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Answer, Question } from "./ask_main.ts";

const answers = v.array(v.union([v.string(), v.array(v.string())]));

const ASK = fileURLToPath(new URL("ask_main.ts", import.meta.url));
/** Runs a program with another /etc/resolv.conf, in a mount namespace of its own. */
const WITH_RESOLV_CONF = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"';
const PATIENCE_MILLISECONDS = 60_000;

/**
 * The content of resolv.conf as a kubelet writes it: the cluster's DNS server, the search domains for short names, and
 * the number of dots from which on a name is first asked as it is.
 */
export interface ResolverOptions {
  readonly server: string;
  /** The namespace of the pod. */
  readonly namespace: string;
  /** Options in addition to those of a kubelet ("use-vc"). */
  readonly options?: string;
}

/**
 * Returns the addresses that the C library's own resolver finds for a name, asking for both families at once from one
 * port.
 *
 * It asks once and waits long, so a lost query means that the name is not found.
 *
 * @returns each address once, sorted; none when the name is not found
 */
export function lookUp(lab: Lab, from: LabNamespace, name: string, options: ResolverOptions): readonly string[] {
  const file = `${lab.scratch}/resolv.conf`;
  const search = [`${options.namespace}.svc.cluster.local`, "svc.cluster.local", "cluster.local"].join(" ");
  const words = ["ndots:5", "timeout:20", "attempts:1", options.options ?? ""].join(" ");
  writeFileSync(file, `nameserver ${options.server}\nsearch ${search}\noptions ${words}\n`);
  const args = ["--mount", "sh", "-c", WITH_RESOLV_CONF, "sh", file, "getent", "-s", "dns", "ahosts", name];
  const { status, stdout, stderr, error } = from.inside(() =>
    spawnSync("unshare", args, { encoding: "utf8", timeout: PATIENCE_MILLISECONDS }),
  );
  // The status 2 of getent(1) means that the name was not found.
  if (status !== 0 && status !== 2) throw new Error(`${from.name}: getent ${name}: ${error?.message ?? stderr}`);
  return [...new Set(stdout.split("\n").flatMap((line) => /^\S+/.exec(line)?.[0] ?? []))].toSorted();
}

/**
 * Asks a DNS server each question once, as Node's resolver does, which continues by TCP where an answer is truncated.
 */
export function ask(
  from: LabNamespace,
  server: string,
  questions: readonly Question[],
  timeoutMilliseconds = 5000,
): readonly Answer[] {
  const asked = questions.map(({ type, name }) => `${type} ${name}`);
  return v.parse(
    answers,
    JSON.parse(from.exec(process.execPath, [ASK, server, String(timeoutMilliseconds), ...asked])),
  );
}
