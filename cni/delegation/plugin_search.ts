import { isRegularFile } from "../../kernel/file.ts";
import { type FileReadCalls, OpenFlag } from "../../kernel/syscall/file_calls.ts";
import { CniError, CniErrorCode, showValue } from "../error.ts";

/** Runtimes use two at most. */
const MOST_DIRECTORIES = 64;

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
