import { isName } from "../../ipam/owner.ts";
import { isRegularFile } from "../../kernel/file.ts";
import { type FileReadCalls, OpenFlag } from "../../kernel/syscall/file_calls.ts";
import { CniError, CniErrorCode, invalidField, showValue } from "../error.ts";
import { IPAM, LOOPBACK_PLUGIN, PLUGIN } from "../executables.ts";

/** The names of this executable: executed as an IPAM plugin, it would execute itself without end. */
const OWN_NAMES: readonly string[] = [PLUGIN, LOOPBACK_PLUGIN];

/** The IPAM types that this process serves, with their own semantics and on the same store. */
export const OWN_IPAM: readonly string[] = ["host-local", IPAM];

/** Runtimes use two at most. */
const MOST_DIRECTORIES = 64;

/**
 * Returns the external IPAM plugin that a configuration names.
 *
 * @param type `ipam.type`
 * @param self the name this process was executed under
 * @returns undefined for a type that this process serves itself
 * @throws CniError 7 for a text that cannot be a file name, 2 for a name of our own
 */
export function foreignIpamType(type: unknown, self: string): string | undefined {
  if (typeof type !== "string" || !isName(type)) {
    throw invalidField("ipam.type", type, 'a plugin\'s file name without a path, such as "host-local"');
  }
  if (OWN_IPAM.includes(type)) return undefined;
  if (!OWN_NAMES.includes(type) && type !== self) return type;
  throw new CniError(
    CniErrorCode.UNSUPPORTED_FIELD,
    `ipam.type: ${showValue(type)} is an interface plugin; expected an IPAM plugin: ${OWN_IPAM.join(", ")}, or the name of an executable in CNI_PATH`,
  );
}

/**
 * Finds a plugin's executable: the first regular file of its name in the directories of CNI_PATH.
 *
 * @param path CNI_PATH: directories, separated by ":"
 * @throws CniError 4 without CNI_PATH, 7 without such a file, in libcni's words
 */
export function findPlugin(files: FileReadCalls, path: string | undefined, type: string): string {
  if (path === undefined || path === "") {
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      "required env variables [CNI_PATH] missing",
      `ipam.type ${showValue(type)} is the name of an executable; the container runtime says by CNI_PATH where to look for it`,
    );
  }
  const directories = path.split(":").filter((directory) => directory !== "" && !directory.includes("\0"));
  for (const directory of directories.slice(0, MOST_DIRECTORIES)) {
    const file = `${directory}/${type}`;
    const fd = files.open(file, OpenFlag.RDONLY | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC, 0);
    if (fd < 0) continue;
    const isFile = isRegularFile(files, fd);
    files.close(fd);
    if (isFile) return file;
  }
  throw new CniError(
    CniErrorCode.INVALID_CONFIGURATION,
    `ipam.type: failed to find plugin ${showValue(type)} in path ${showValue(directories)}; expected its executable there: install it, or name another IPAM plugin`,
  );
}
