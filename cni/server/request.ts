import { littleEndian } from "../../kernel/netlink/writer.ts";
import type { Environment } from "../environment.ts";

/** A call of the plugin as the shim hands it over. */
export interface Request {
  readonly argv0: string;
  readonly environment: Environment;
}

/**
 * Whether a call has the same meaning in every process. It does not if the path of its namespace depends on the working
 * directory, or refers to the calling process's own descriptors or threads. The paths of a configuration must be
 * absolute anyway (cni/configuration/configuration.ts).
 */
export function meansTheSameAnywhere({ environment }: Request): boolean {
  const netns = environment["CNI_NETNS"] ?? "";
  return (
    netns === "" || (/^(\/[^/]+)+$/.test(netns) && !/^\/proc\/(self|thread-self)\/|^\/dev\/|\/\.\.?(\/|$)/.test(netns))
  );
}

const ARGC_SIZE = 8;
/** A byte order mark at the beginning is a part of argv 0. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Reads the shim's message: argc as a long, then the strings of argv and those of the environment, each with its NUL
 * (cni/shim/program.ts). If a variable occurs twice, the first one counts, as for getenv(3).
 *
 * @returns undefined for a malformed message
 */
export function parseRequest(message: Uint8Array): Request | undefined {
  if (message.length <= ARGC_SIZE || message.at(-1) !== 0) return undefined;
  const argc = new DataView(message.buffer, message.byteOffset).getBigUint64(0, littleEndian);
  const strings = decoder.decode(message.subarray(ARGC_SIZE, -1)).split("\0");
  if (argc < 1n || argc > BigInt(strings.length)) return undefined;
  const environment = new Map<string, string>();
  for (const variable of strings.slice(Number(argc))) {
    const end = variable.indexOf("=");
    if (end < 1) continue;
    const name = variable.slice(0, end);
    if (!environment.has(name)) environment.set(name, variable.slice(end + 1));
  }
  return { argv0: strings[0] ?? "", environment: Object.fromEntries(environment) };
}
