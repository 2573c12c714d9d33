import { statSync } from "node:fs";
import process from "node:process";
import { DrawbridgeError } from "../../kernel/error.ts";
import { readTextFile } from "../../kernel/file.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Clock } from "../clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { apiAddress } from "./api/api_address.ts";
import { ApiSource } from "./api/api_source.ts";
import { HttpConnection } from "./api/http_connection.ts";
import type { Credentials } from "./api/kubeconfig.ts";
import { credentialsOf } from "./api/kubeconfig.ts";
import { ServiceAccount } from "./api/service_account.ts";
import { DirectorySource } from "./directory_source.ts";
import type { ObjectSource } from "./object_source.ts";
import { RealDirectory } from "./watched_directory.ts";

/** A kubeconfig with the certificates of some clusters, a token, an authority. */
const LARGEST_FILE = 1024 * 1024;

/**
 * Where the configuration says that objects come from: a directory, else the API server.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for a directory that is none, and where no address of an API server is to be found;
 *   one that cannot be asked is a problem of the source, which waits for it
 */
export function openSource(configuration: Configuration, files: FileReadCalls, clock: Clock): ObjectSource {
  const { objectsDirectory } = configuration;
  if (objectsDirectory !== undefined) {
    return new DirectorySource(new RealDirectory(expectDirectory(objectsDirectory)), clock);
  }
  const connection = new HttpConnection(apiCredentials(configuration, files));
  return new ApiSource({ connection, clock, random: () => Math.random() });
}

/**
 * How the configuration has the API server asked, for what does not come from a directory; to be called for each request.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is to be found
 */
export function apiCredentials(configuration: Configuration, files: FileReadCalls): () => Promise<Credentials> {
  const { apiServer, kubeconfig, kubeletKubeconfig, serviceAccountDirectory } = configuration;
  const readText = (path: string): string | undefined => readTextFile(files, path, LARGEST_FILE);
  if (kubeconfig !== undefined) {
    return async () => {
      const credentials = await credentialsOf({ kubeconfig, context: undefined });
      return apiServer === undefined ? credentials : { ...credentials, server: apiServer };
    };
  }
  const places = { apiServer, kubeletKubeconfig, readText, environment: process.env };
  // Where nothing at all is said it is not waited for.
  apiAddress(places);
  const account = new ServiceAccount(serviceAccountDirectory, readText);
  return async () => account.credentials(apiAddress(places));
}

function expectDirectory(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return path;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `objectsDirectory: ${JSON.stringify(path)} is no directory; expected a directory of .yaml, .yml and .json files`,
  );
}
