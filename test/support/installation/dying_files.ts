import type { HostFiles } from "../../../policyd/installation/host_files.ts";

/** The error in a process that was killed, which prevents everything that it would do later. */
export class Killed extends Error {}

/**
 * The moment at which a process is killed: before its n-th call, after it, or, where that call writes, with half of the
 * data written.
 */
export interface Death {
  readonly call: number;
  readonly moment: "before" | "half" | "after";
}

export interface DyingFiles {
  readonly files: HostFiles;
  /** Returns the number of calls, and which of them wrote. */
  readonly calls: () => { readonly count: number; readonly writes: ReadonlySet<number> };
}

/**
 * Returns real files whose user is killed at one of its calls: from then on every call fails without any effect.
 *
 * @param observe is called after each call, as another process might read the files in between
 */
export function dyingFiles(real: HostFiles, death: Death | undefined, observe: () => void): DyingFiles {
  let calls = 0;
  let isDead = false;
  const writes = new Set<number>();
  const step = async <T>(call: () => Promise<T>, half: () => Promise<unknown> = async () => undefined): Promise<T> => {
    if (isDead) throw new Killed();
    const isLast = ++calls === death?.call;
    isDead = isLast;
    if (isLast && death.moment === "half") await half();
    if (isLast && death.moment !== "after") throw new Killed();
    const result = await call();
    observe();
    if (isLast) throw new Killed();
    return result;
  };
  const files: HostFiles = {
    makeDirectory: (directory) => step(() => real.makeDirectory(directory)),
    list: (directory) => step(() => real.list(directory)),
    look: (name) => step(() => real.look(name)),
    readSmall: (name, limit) => step(() => real.readSmall(name, limit)),
    read: (name) => step(() => real.read(name)),
    writeNew: async (name, data, mode) => {
      writes.add(calls + 1);
      // A process that is killed while it writes leaves a part, which only root can read.
      await step(
        () => real.writeNew(name, data, mode),
        () => real.writeNew(name, data.subarray(0, data.length >> 1), 0o600),
      );
    },
    link: (existing, name) => step(() => real.link(existing, name)),
    rename: (from, to) => step(() => real.rename(from, to)),
    replaceUnchanged: (from, to, signature) => step(() => real.replaceUnchanged(from, to, signature)),
    remove: (name) => step(() => real.remove(name)),
    syncDirectory: (directory) => step(() => real.syncDirectory(directory)),
    watch: (directory, onChange, onEnd) => real.watch(directory, onChange, onEnd),
  };
  return { files, calls: () => ({ count: calls, writes }) };
}
