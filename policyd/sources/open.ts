import { statSync } from "node:fs";
import process from "node:process";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { readTextFile } from "../../kernel/file.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { apiAddress, type FoundAddress, foundText } from "./api/connection/api_address.ts";
import { ApiSource } from "./api/api_source.ts";
import { HttpConnection } from "./api/connection/http_connection.ts";
import { type Credentials, credentialsOf } from "./api/connection/kubeconfig.ts";
import { ServiceAccount } from "./api/connection/service_account.ts";
import { DirectorySource } from "./directory/directory_source.ts";
import type { ObjectSource } from "./object_source.ts";
import { RealDirectory } from "./directory/watched_directory.ts";

/** The largest kubeconfig (with the certificates of some clusters), token or certificate authority in bytes. */
const LARGEST_FILE = 1024 * 1024;

/**
 * Opens the source of objects that the configuration selects: a directory, else the API server.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where the directory is not one, and where no address of an API server is
 *   found. A server that cannot be reached is a problem of the source, which waits for it
 * @param before called before each request to an API server, which is sent once the promise has settled
 * @param notice called with the address of the API server and where it was found, whenever that changes
 */
export function openSource(
  configuration: Configuration,
  files: FileReadCalls,
  clock: Clock,
  notice: (message: string) => void,
  before: (server: URL) => Promise<void> = async () => {},
): ObjectSource {
  const { objectsDirectory } = configuration;
  if (objectsDirectory !== undefined) {
    return new DirectorySource(new RealDirectory(expectDirectory(objectsDirectory)), clock);
  }
  const tell = changesOf(notice);
  let origin: FoundAddress["origin"] | undefined;
  const credentials = apiCredentials(configuration, files, (address) => {
    ({ origin } = address);
    tell(address);
  });
  const connection = new HttpConnection(async () => {
    const found = await credentials();
    await before(found.server);
    return found;
  });
  const stale = (): readonly string[] =>
    origin?.type === "kubelet" && isReplaced(origin.path)
      ? [`${origin.path}: the API server's address${REPLACED}`]
      : [];
  return new ApiSource({ connection, clock, random: () => Math.random() }, stale);
}

/**
 * Returns a function that gives the credentials for a request to the API server; call it for each request. Each call
 * finds the address again, so a replaced kubeconfig counts from the next request on (API-21).
 *
 * @param found called with each address that is found
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is found
 */
export function apiCredentials(
  configuration: Configuration,
  files: FileReadCalls,
  found: (address: FoundAddress) => void = () => {},
): () => Promise<Credentials> {
  const { apiServer, kubeconfig, kubeletKubeconfig, serviceAccountDirectory } = configuration;
  const readText = (path: string): string | undefined => readTextFile(files, path, LARGEST_FILE);
  if (kubeconfig !== undefined) {
    return async () => {
      const credentials = await credentialsOf({ kubeconfig, context: undefined });
      return apiServer === undefined ? credentials : { ...credentials, server: apiServer };
    };
  }
  const readPlace = kubeletKubeconfig === undefined ? unlessAnotherThing(readText) : readText;
  const places = { apiServer, kubeletKubeconfig, readText: readPlace, environment: process.env };
  // Without any address the daemon fails at once instead of waiting for one.
  apiAddress(places);
  const account = new ServiceAccount(serviceAccountDirectory, readText);
  return async () => {
    const address = apiAddress(places);
    found(address);
    return account.credentials(address.url);
  };
}

/** Returns the address of the kubelet's API server; undefined where its kubeconfig is not found or cannot be read. */
export function kubeletServer({ kubeletKubeconfig }: Configuration, files: FileReadCalls): URL | undefined {
  const read = (path: string): string | undefined => readTextFile(files, path, LARGEST_FILE);
  const readText = kubeletKubeconfig === undefined ? unlessAnotherThing(read) : read;
  return attempt(
    () => apiAddress({ apiServer: undefined, kubeletKubeconfig, readText, environment: {} }).url,
    () => undefined,
  );
}

/**
 * Returns a reader that ignores paths with another meaning. Fedora's Kubernetes packages have the kubelet's settings in
 * the file /etc/kubernetes/kubelet, while Bottlerocket has its kubeconfig in a directory of that name.
 */
function unlessAnotherThing(readText: (path: string) => string | undefined): (path: string) => string | undefined {
  return (path) => {
    try {
      return readText(path);
    } catch (error) {
      const isOther = error instanceof SyscallError && (error.errno === Errno.ENOTDIR || error.errno === Errno.EISDIR);
      if (isOther) return undefined;
      throw error;
    }
  };
}

/** Returns a function that reports an address when it, or the place where it was found, has changed. */
function changesOf(notice: (message: string) => void): (address: FoundAddress) => void {
  let last = "";
  return (address) => {
    const { origin } = address;
    const isOld = origin.type === "kubelet" && isReplaced(origin.path);
    const text = `${foundText(address)}${isOld ? REPLACED : ""}`;
    if (text === last) return;
    last = text;
    notice(text);
  };
}

/** The end of the report if the address comes from a file that the node no longer has. */
const REPLACED =
  ". The file has been replaced on the node, and this mount still shows the old one: mount its directory, or restart the pod";

/** Whether a file was replaced while a mount of that single file still shows the old one, which has no name left. */
function isReplaced(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.nlink === 0;
}

function expectDirectory(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return path;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `objectsDirectory: ${JSON.stringify(path)} is not a directory; expected a directory of .yaml, .yml and .json files`,
  );
}
