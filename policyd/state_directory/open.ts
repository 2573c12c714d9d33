import { STATE_NAMES } from "../../attachment/state_names.ts";
import { AddressStore } from "../../ipam/store.ts";
import { acquireFileLock } from "../../kernel/file_lock.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type FileSight, sightOf } from "../../kernel/file.ts";
import { isExhaustion } from "../../kernel/syscall/exhaustion.ts";
import type { AttachmentPresence } from "../attachments/attachment_exists.ts";
import type { Cancel } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { EnforcedMark } from "../policies/closing/enforced_mark.ts";
import { isLocked } from "../socket/listener.ts";
import type { ServedSocket } from "../socket/server.ts";
import { KeptTree } from "./directory_repair.ts";
import { PodFiles } from "./pod_files.ts";

/** Milliseconds between checks of some fifteen file requests, 0.2 ms a second. Repairs take less than a second. */
const PERIOD = 500;

export interface StateKeeperMachine extends Machine, Pick<AttachmentPresence, "hasLink"> {
  readonly socket: Pick<ServedSocket, "restore">;
  readonly mark: EnforcedMark;
  /** Receives the number of restored reservations. */
  readonly onReservations: (count: number) => void;
  /** Ends the process immediately. */
  readonly end: () => never;
}

/** Keeps the daemon's files and socket from now on. @returns a function that ends this */
export function openStateKeeper(
  { socketPath, stateDirectory }: Pick<Configuration, "socketPath" | "stateDirectory">,
  machine: StateKeeperMachine,
): Cancel {
  const { syscalls, files, clock, logger, attachments, hasLink, socket, mark, onReservations, end } = machine;
  const seen = (path: string): FileSight | undefined => sightOf(syscalls, path);
  const lock = { acquire: (path: string) => acquireFileLock(syscalls, path) };
  const storeOf = (network: string, directory: string): AddressStore =>
    new AddressStore({ directory, network, fileSystem: files, lock });
  const pods = new PodFiles({ stateDirectory, files, sightOf: seen, attachments, hasLink, storeOf });
  const restoreReservations = (): number => {
    const restored = pods.restoreReservations();
    if (restored > 0) onReservations(restored);
    return restored;
  };
  const names = [...STATE_NAMES].flatMap(([name, { isKept }]) => (isKept === true ? [name] : []));
  const trees = names.map((name) => new KeptTree(`${stateDirectory}/${name}`, { files, sightOf: seen, clock }));
  const restoreSocket = async (): Promise<number> => {
    try {
      return Number(await socket.restore());
    } catch (error) {
      if (!isLocked(socketPath, syscalls)) throw error;
      logger.error("another policyd has begun while the socket of this one was missing: this one ends", { socketPath });
      return end();
    }
  };
  return keepState(
    [
      { name: "the socket", look: restoreSocket },
      { name: "records of pods", look: () => pods.restoreRecords() },
      { name: "reservations of pods' addresses", look: restoreReservations },
      { name: "files of the state directory", look: () => trees.reduce((sum, tree) => sum + tree.look(), 0) },
      { name: "the mark of enforced policies", look: () => mark.restore() },
    ],
    machine,
  );
}

/** A part of the daemon's state on disk that is restored when somebody removes it. */
interface KeptPart {
  readonly name: string;
  /** Checks and restores it. @returns the number restored @throws DrawbridgeError (or rejects) if it cannot now */
  readonly look: () => number | Promise<number>;
}

/**
 * Restores the daemon's files and socket for the plugin, the next daemon and the administrator: a person, or a clean-up
 * of temporary files, may remove `/run/drawbridge` while the daemon runs.
 *
 * @param kept in the order of the checks
 * @returns a function that ends this
 */
function keepState(kept: readonly KeptPart[], { clock, logger }: Pick<Machine, "clock" | "logger">): Cancel {
  /** Why a part cannot be restored, by its name; a lasting reason is logged once. */
  const reasons = new Map<string, string>();
  const lookAt = async ({ name, look }: KeptPart): Promise<void> => {
    try {
      const restored = await look();
      reasons.delete(name);
      if (restored > 0)
        logger.warn("another program has removed files of policyd; they are there again", { what: name, restored });
    } catch (error) {
      if (!(error instanceof DrawbridgeError || isExhaustion(error))) throw error;
      const reason = error.message;
      if (reasons.get(name) !== reason) logger.error("files of policyd cannot be put back", { what: name, reason });
      reasons.set(name, reason);
    }
  };
  const pass = async (): Promise<number> => {
    for (const part of kept) if (!loop.isStopped) await lookAt(part);
    return PERIOD;
  };
  const loop = new ControlLoop({ clock, pass });
  loop.within(PERIOD);
  return () => void loop.stop();
}
