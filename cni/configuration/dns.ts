import { readTextFile } from "../../kernel/file.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import { CniError, CniErrorCode } from "../error.ts";
import type { NetworkConfiguration } from "./configuration.ts";
import type { PluginMachine } from "../host.ts";
import type { Dns } from "../result.ts";

const LONGEST_RESOLV_CONF = 64 * 1024;

/**
 * Returns the DNS settings of the result: the configuration's own, otherwise those of the file that `ipam.resolvConf`
 * names.
 *
 * @throws CniError 5 when that file cannot be read
 */
export function dnsOf(node: PluginMachine, configuration: NetworkConfiguration): Dns {
  const { resolvConf } = configuration.ipam;
  if (Object.keys(configuration.dns).length > 0 || resolvConf === undefined) return configuration.dns;
  let text: string | undefined;
  try {
    text = readTextFile(node.syscalls, resolvConf, LONGEST_RESOLV_CONF);
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    throw new CniError(CniErrorCode.IO_FAILURE, `ipam.resolvConf: ${error.message}`);
  }
  if (text === undefined) {
    throw new CniError(CniErrorCode.IO_FAILURE, `ipam.resolvConf: ${JSON.stringify(resolvConf)} does not exist`);
  }
  return parseResolvConf(text);
}

/** Reads resolv.conf(5) as host-local does: the last `domain` and `search` win, servers and options add up. */
export function parseResolvConf(text: string): Dns {
  const nameservers: string[] = [];
  const options: string[] = [];
  let domain: string | undefined;
  let search: readonly string[] | undefined;
  for (const line of text.split("\n")) {
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === undefined || /^[#;]/.test(keyword) || values.length === 0) continue;
    if (keyword === "nameserver") nameservers.push(...values.slice(0, 1));
    else if (keyword === "domain") domain = values[0];
    else if (keyword === "search") search = values;
    else if (keyword === "options") options.push(...values);
  }
  return {
    ...(nameservers.length === 0 ? {} : { nameservers }),
    ...(domain === undefined ? {} : { domain }),
    ...(search === undefined ? {} : { search }),
    ...(options.length === 0 ? {} : { options }),
  };
}
