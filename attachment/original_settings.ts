import type { Sysctl } from "../kernel/sysctl.ts";
import { replaceFile, type StoreFileSystem } from "../ipam/file_system.ts";

/** A kernel setting that Drawbridge has changed, with the value that it had before. */
export interface OriginalSetting {
  /** As {@link Sysctl} has it: `net/ipv4/ip_forward`. */
  readonly key: string;
  readonly original: string;
  /** Our values: the one last written, and while another is being written both. No other program wrote these. */
  readonly ours: readonly string[];
}

/** An original setting as found below the run directory. */
export interface FoundOriginal {
  readonly path: string;
  /** Undefined if the file is not a record of this release. */
  readonly setting: OriginalSetting | undefined;
}

/** The place where original settings are stored. */
export interface OriginalSettingsPlace {
  readonly files: StoreFileSystem;
  /** Usually `/run/drawbridge`. */
  readonly runDirectory: string;
  /** The id of this boot: after a reboot the kernel's own values are the original ones again. */
  readonly bootId: () => string;
}

/** The subdirectory of the run directory. */
export const ORIGINAL_SETTINGS = "settings";

const VERSION = 1;
/** Enough for two keys and some values of at most 256 bytes each, with at most six bytes a character in JSON. */
const MAX_RECORD_BYTES = 8 * 1024;

/**
 * Returns a view of settings that remembers the value of each setting before it first changes it (SYSCTL-02).
 *
 * There is one file for each setting below `settings/` of the run directory, so components that change different
 * settings do not interfere. The file is renamed into its place before the setting is changed, so a process that is
 * killed at any moment leaves a true record. A record that this release does not understand stays as it is: it has the
 * original value for a newer release.
 *
 * Writing a value that the setting already has does nothing.
 */
export function rememberingSysctl(sysctl: Sysctl, place: OriginalSettingsPlace): Sysctl {
  return {
    read: (key) => sysctl.read(key),
    /** @throws DrawbridgeError ERR_STORE when the original value cannot be stored; the setting is then unchanged */
    write: (key, value) => {
      const present = sysctl.read(key);
      if (present === undefined || present === value) return present !== undefined;
      const found = readOriginal(place, key);
      const isForeign = found !== undefined && found.setting === undefined;
      const before = found?.setting;
      const next = changedSetting(before, { key, present, value });
      if (!isForeign) writeOriginal(place, next);
      const isThere = sysctl.write(key, value);
      if (!isForeign && next.ours.length > 1) writeOriginal(place, { ...next, ours: [value] });
      return isThere;
    },
  };
}

/** Decides what to remember when a setting is changed. A present value of another program becomes the original. */
function changedSetting(
  before: OriginalSetting | undefined,
  { key, present, value }: { readonly key: string; readonly present: string; readonly value: string },
): OriginalSetting {
  const isOurs = before?.ours.includes(present) === true;
  return isOurs ? { ...before, ours: [present, value] } : { key, original: present, ours: [value] };
}

/**
 * Restores a setting's original value and forgets it. It does nothing if none is remembered, and only forgets it if
 * another program has changed the setting since.
 *
 * @throws DrawbridgeError ERR_STORE
 */
export function giveBack(sysctl: Sysctl, place: OriginalSettingsPlace, key: string): void {
  const found = readOriginal(place, key);
  if (found?.setting === undefined) return;
  if (found.setting.ours.includes(sysctl.read(key) ?? "")) sysctl.write(key, found.setting.original);
  place.files.unlink(found.path);
}

/** Lists the settings remembered for this boot, by the names of the files. @throws DrawbridgeError ERR_STORE */
export function listOriginals(place: OriginalSettingsPlace): readonly FoundOriginal[] {
  const names = place.files.readDirectory(directoryOf(place)).filter((name) => /^[^.].*\.json$/.test(name));
  return names.sort().flatMap((name) => readPath(place, `${directoryOf(place)}/${name}`) ?? []);
}

function readOriginal(place: OriginalSettingsPlace, key: string): FoundOriginal | undefined {
  const found = readPath(place, `${directoryOf(place)}/${fileNameOf(key)}`);
  return found?.setting !== undefined && found.setting.key !== key ? { ...found, setting: undefined } : found;
}

/** @returns undefined if there is none of this boot */
function readPath({ files, bootId }: OriginalSettingsPlace, path: string): FoundOriginal | undefined {
  const file = files.readSmallFile(path, MAX_RECORD_BYTES);
  if (file.kind === "missing") return undefined;
  const value = file.kind === "text" ? parsed(file.text) : undefined;
  if (value?.["bootId"] !== undefined && value["bootId"] !== bootId()) return undefined;
  return { path, setting: value === undefined ? undefined : settingOf(value) };
}

function settingOf({ version, key, original, ours }: Readonly<Record<string, unknown>>): OriginalSetting | undefined {
  if (version !== VERSION || !isKey(key) || !isWord(original) || !Array.isArray(ours)) return undefined;
  const words = ours.filter(isWord);
  return words.length === 0 || words.length < ours.length ? undefined : { key, original, ours: words };
}

/** Returns whether a value is a setting of the network; no others are restored. */
function isKey(value: unknown): value is string {
  return isWord(value) && /^net(\/(?!\.{1,2}(\/|$))[^/\s]+)+$/.test(value);
}

/** Returns whether a value is one that the kernel prints in one line. */
function isWord(value: unknown): value is string {
  return typeof value === "string" && value.length <= 256 && /^[^\0\n]*$/.test(value);
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function writeOriginal(place: OriginalSettingsPlace, setting: OriginalSetting): void {
  const { files, bootId } = place;
  const [directory, name] = [directoryOf(place), fileNameOf(setting.key)];
  const text = JSON.stringify({ version: VERSION, bootId: bootId(), ...setting });
  // Two processes may remember the same setting at once; each has its own scratch name.
  replaceFile(files, directory, name, text, `${directory}/.${name}.${process.pid}`);
}

function directoryOf({ runDirectory }: OriginalSettingsPlace): string {
  return `${runDirectory}/${ORIGINAL_SETTINGS}`;
}

/** Returns a setting's file. The key is one component: a link's name may have any character but slashes and blanks. */
function fileNameOf(key: string): string {
  return `${encodeURIComponent(key)}.json`;
}
