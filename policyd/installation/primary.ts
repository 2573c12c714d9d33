import { PLUGIN } from "../../cni/executables.ts";
import type { HostFiles } from "./host_files.ts";
import { CONFIGURATION_FILE } from "../configuration/schema.ts";
import { namesBeforeOurs, NETWORK_NAME } from "./configuration_list.ts";
import { isObject } from "../../cni/json.ts";
import { readValue } from "./list_text.ts";

/** Deeper than any existing configuration: a delegate of a delegate. */
const DEEPEST = 4;
const LARGEST = 1024 * 1024;

/** The configuration that runtimes use instead of ours, in the directory that they read. */
export class Primary {
  readonly #files: Pick<HostFiles, "list" | "look" | "readSmall">;
  readonly #directory: string;
  readonly #declared: string | undefined;
  /** A file that could not be parsed in the previous check; Multus and others write in place. */
  #unclear: string | undefined;

  /** @param declared the name of a file that is meant to come first, with any content */
  constructor(files: Pick<HostFiles, "list" | "look" | "readSmall">, directory: string, declared: string | undefined) {
    this.#files = files;
    this.#directory = directory;
    this.#declared = declared;
  }

  /**
   * Returns what is wrong with the first configuration, in words; undefined when it is ours, declared, or leads to
   * ours. "perhaps unfinished" requests another check.
   *
   * @throws DrawbridgeError ERR_STORE
   */
  async problem(): Promise<string | undefined> {
    const first = await this.#first();
    const unclear = this.#unclear;
    this.#unclear = undefined;
    if (first === undefined || first === this.#declared) return undefined;
    const path = `${this.#directory}/${first}`;
    const file = await this.#files.readSmall(path, LARGEST);
    if (file.kind === "file" && leadsToOurs(file.data)) return undefined;
    const isNew = file.kind === "file" && readValue(file.data) === undefined && unclear !== path;
    if (isNew) {
      this.#unclear = path;
      return "perhaps unfinished";
    }
    return (
      `${path} comes before ${CONFIGURATION_FILE}, so runtimes use that network: remove it, ` +
      "together with the add-on it belongs to, or give it a later name; where it is meant to come first and attaches pods by " +
      "Drawbridge, name it in cniPrimary"
    );
  }

  /** Returns the configuration that runtimes use instead of ours; directories do not count. */
  async #first(): Promise<string | undefined> {
    for (const name of namesBeforeOurs(await this.#files.list(this.#directory))) {
      const look = await this.#files.look(`${this.#directory}/${name}`);
      if (look !== undefined && !look.isDirectory) return name;
    }
    return undefined;
  }
}

/**
 * Returns whether a configuration that runtimes use instead of ours attaches pods by ours: a list with our plugin in
 * it, as istio-cni writes, or one that delegates to our list, as Multus does. Multus names its delegate by a copy of
 * the list (`delegates`), by the network's name or by the file's path (`clusterNetwork`).
 */
export function leadsToOurs(data: Uint8Array): boolean {
  return leads(readValue(data), DEEPEST);
}

function leads(value: unknown, depth: number): boolean {
  if (!isObject(value) || depth === 0) return false;
  if (value["type"] === PLUGIN || namesOurs(value["clusterNetwork"])) return true;
  return [...listOf(value["plugins"]), ...listOf(value["delegates"])].some(
    (inner) => leads(inner, depth - 1) || (isObject(inner) && inner["name"] === NETWORK_NAME),
  );
}

function namesOurs(text: unknown): boolean {
  return typeof text === "string" && (text === NETWORK_NAME || text.split("/").at(-1) === CONFIGURATION_FILE);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
