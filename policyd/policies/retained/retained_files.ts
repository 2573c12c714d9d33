import { replaceFile, type StoreFileSystem } from "../../../ipam/file_system.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { NetworkPolicy } from "../../../objects/model.ts";
import { judge } from "../../../objects/gate/gate.ts";
import { Reader } from "../../../objects/gate/reader.ts";
import type { Logger } from "../../log/logger.ts";
import { policyManifest } from "./policy_manifest.ts";

/** The policies that the pods of a namespace keep until they are gone. */
export interface RetainedRecord {
  readonly namespace: string;
  /** The keys of its pods' attachments. */
  readonly attachments: readonly string[];
  /** All policies of the namespace, including deleted ones that its pods keep. */
  readonly policies: readonly NetworkPolicy[];
}

/** The records that an earlier daemon has saved. */
export interface RetainedRecords {
  /** By the number of each. */
  readonly records: ReadonlyMap<number, RetainedRecord>;
  /** False if something was saved, or should have been, that cannot be read. */
  readonly isWhole: boolean;
  /** The highest number of all records, including unreadable ones; 0 if there are none. */
  readonly lastNumber: number;
}

/** Stores retained policies beyond the end of the daemon. Nothing in it throws: failures are logged. */
export interface RetainedStore {
  load(): RetainedRecords;
  /** Saves a record in place of an earlier one with its number. If that fails, the record counts as unreadable. */
  save(number: number, record: RetainedRecord): void;
  remove(number: number): void;
  /** The keys of all existing attachments. */
  attachments(): ReadonlySet<string>;
}

/** The policies of a namespace rarely exceed some kilobytes; a larger record than this is not saved. */
const LARGEST_FILE = 4 * 1024 * 1024;
/** More namespaces than end at once on any node; further files are not read. */
const MOST_FILES = 1024;
const VERSION = 1;
const FILE_NAME = /^([1-9]\d{0,8})\.json$/;

const CONSEQUENCE = "after a restart of policyd the pods of the namespace send and receive nothing";
const NOT_READ = "retained policies not read: pods whose namespace is gone send and receive nothing";

/** The dependencies of the store. */
export interface RetainedPlace {
  /** Usually `/run/drawbridge`. */
  readonly stateDirectory: string;
  readonly files: StoreFileSystem;
  readonly logger: Pick<Logger, "warn">;
  readonly attachments: RetainedStore["attachments"];
}

/** Returns a store of files below the state directory, which is on a tmpfs: they vanish with the pods at a reboot. */
export function retainedFiles({ stateDirectory, files, logger, attachments }: RetainedPlace): RetainedStore {
  const directory = `${stateDirectory}/retained`;
  const pathOf = (number: number): string => `${directory}/${number}.json`;

  /** @returns whether the action succeeded */
  const attempt = (message: string, action: () => void): boolean => {
    try {
      action();
      return true;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.warn(message, { reason: error.message });
      return false;
    }
  };

  const numbersThere = (): readonly number[] =>
    files
      .readDirectory(directory)
      .flatMap((name) => Number(FILE_NAME.exec(name)?.[1] ?? 0) || [])
      .sort((a, b) => a - b);

  const write = (number: number, record: RetainedRecord): void => {
    const text = recordText(record);
    const size = new TextEncoder().encode(text).length;
    if (size > LARGEST_FILE) {
      throw new DrawbridgeError("ERR_STORE", `${size} bytes of policies; expected at most ${LARGEST_FILE}`);
    }
    replaceFile(files, directory, `${number}.json`, text);
  };

  return {
    attachments,

    load(): RetainedRecords {
      const records = new Map<number, RetainedRecord>();
      let numbers: readonly number[] = [];
      const isListed = attempt(NOT_READ, () => {
        numbers = numbersThere();
      });
      for (const number of numbers.slice(0, MOST_FILES)) {
        attempt(NOT_READ, () => records.set(number, readRecord(pathOf(number), files)));
      }
      const more = numbers.length - MOST_FILES;
      if (more > 0) logger.warn(NOT_READ, { reason: `${directory}: ${more} files more than ${MOST_FILES}` });
      return { records, isWhole: isListed && records.size === numbers.length, lastNumber: numbers.at(-1) ?? 0 };
    },

    save(number: number, record: RetainedRecord): void {
      attempt(`retained policies not saved: ${CONSEQUENCE}`, () => {
        try {
          write(number, record);
        } catch (error) {
          // The previous record may allow more; an empty file shows that something is missing.
          files.unlink(pathOf(number));
          files.createFile(pathOf(number), "");
          throw error;
        }
      });
    },

    remove(number: number): void {
      attempt("retained policies not removed", () => files.unlink(pathOf(number)));
    },
  };
}

/** A store that saves nothing. */
export const NO_RETAINED_FILES: RetainedStore = Object.freeze<RetainedStore>({
  load: () => ({ records: new Map(), isWhole: true, lastNumber: 0 }),
  save: () => {},
  remove: () => {},
  attachments: () => new Set(),
});

function recordText({ namespace, attachments, policies }: RetainedRecord): string {
  return JSON.stringify({ version: VERSION, namespace, attachments, policies: policies.map(policyManifest) });
}

/** @throws DrawbridgeError, naming the file, for anything that is not a record of ours */
function readRecord(path: string, files: StoreFileSystem): RetainedRecord {
  const file = files.readSmallFile(path, LARGEST_FILE);
  if (file.kind !== "text") {
    throw new DrawbridgeError("ERR_STORE", `${path}: not a regular file of at most ${LARGEST_FILE} bytes`);
  }
  try {
    return decodeRecord(JSON.parse(file.text));
  } catch (error) {
    const isExpected = error instanceof DrawbridgeError || error instanceof SyntaxError;
    if (!isExpected) throw error;
    throw new DrawbridgeError("ERR_STORE", `${path}: ${error.message}`);
  }
}

/** @throws DrawbridgeError ERR_OBJECT even if one policy is invalid: without it the others would allow more */
function decodeRecord(value: unknown): RetainedRecord {
  const reader = new Reader(value, "");
  if (reader.get("version") !== VERSION) {
    throw new DrawbridgeError("ERR_OBJECT", `version ${JSON.stringify(reader.get("version"))}; expected ${VERSION}`);
  }
  const namespace = reader.string("namespace");
  const attachments = reader.all("attachments", (key, field) => {
    if (typeof key === "string") return key;
    throw new DrawbridgeError("ERR_OBJECT", `${field}: expected the key of an attachment`);
  });
  const policies = reader.all("policies", (object, field) => {
    const verdict = judge(object);
    if (verdict.type !== "accepted" || verdict.object.kind !== "NetworkPolicy") {
      const reason = verdict.type === "refused" ? verdict.problem : "not a NetworkPolicy";
      throw new DrawbridgeError("ERR_OBJECT", `${field}: ${reason}`);
    }
    if (verdict.object.namespace !== namespace) {
      throw new DrawbridgeError("ERR_OBJECT", `${field}: namespace ${verdict.object.namespace}; expected ${namespace}`);
    }
    return verdict.object;
  });
  return { namespace, attachments, policies };
}
