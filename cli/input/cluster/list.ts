import { type PageEnd, PageReader } from "../../../policyd/sources/api/page.ts";
import { versionsOf } from "../../../policyd/sources/api/resources.ts";
import { wordsIn } from "../../../policyd/sources/api/watch_lines.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type ApiResponse, type ApiServer, NoAnswer } from "./object_input.ts";
import type { Resource } from "./resources.ts";
import { printable } from "../../../objects/printable.ts";

/** The page size of kubectl and client-go. */
const PAGE_SIZE = 500;
/** A million objects: a bound for servers whose lists never end. */
const MOST_PAGES = 2000;
const MOST_RETRIES = 5;
const SHORTEST_WAIT = 1000;
const LONGEST_WAIT = 30_000;

/**
 * Reads all objects of a kind, page by page. A list that expires meanwhile (410) is read once more from its start. When
 * a server asks to wait (429, or 5xx with Retry-After), the next request waits, at most 30 s and five times a page.
 *
 * Of a kind with several versions, the newest one that the server has is read.
 *
 * @param take returns what to retain of an object
 * @param forbidden returns the result where the user may not list them; without it that is an error
 * @returns empty for an optional kind that the server does not have
 * @throws DrawbridgeError ERR_INPUT naming server and resource; a part of a list is never returned
 */
export async function listAll<T>(
  server: ApiServer,
  resource: Resource,
  take: (object: unknown) => T,
  sleep: (milliseconds: number) => Promise<void>,
  forbidden?: (why: string) => readonly T[],
): Promise<readonly T[]> {
  for (const version of versionsOf(resource)) {
    const once = await listOnce(server, version, take, sleep);
    const hasExpired = once !== undefined && isResponse(once) && once.status === 410;
    const last = hasExpired ? await listOnce(server, version, take, sleep) : once;
    if (last === undefined) continue;
    if (!isResponse(last)) return last;
    const error = refusal(server.name, resource, last);
    if (last.status === 403 && forbidden !== undefined) return forbidden(error.message);
    throw error;
  }
  return [];
}

/** @returns the objects, or the answer that ended the list; undefined where the server lacks an optional list */
async function listOnce<T>(
  server: ApiServer,
  resource: Resource,
  take: (object: unknown) => T,
  sleep: (milliseconds: number) => Promise<void>,
): Promise<readonly T[] | ApiResponse | undefined> {
  const items: T[] = [];
  let next = "";
  for (let page = 0; page < MOST_PAGES; page++) {
    const query = new URLSearchParams({ limit: `${PAGE_SIZE}`, ...(next === "" ? {} : { continue: next }) });
    const response = await getPatiently(server, resource, `${resource.path}?${query.toString()}`, sleep);
    if (response.status === 404 && resource.isOptional && page === 0) return undefined;
    if (response.status !== 200) return response;
    const read = pageOf(server, resource, response, take);
    for (const item of read.items) items.push(item);
    if (read.next === "") return items;
    next = read.next;
  }
  throw listFailure(server.name, resource, `more than ${MOST_PAGES} pages`, "expected a list that ends");
}

async function getPatiently(
  server: ApiServer,
  resource: Resource,
  path: string,
  sleep: (milliseconds: number) => Promise<void>,
): Promise<ApiResponse> {
  for (let retries = 0; ; retries++) {
    const response = await get(server, resource, path);
    const wait = waitOf(response);
    if (wait === undefined || retries === MOST_RETRIES) return response;
    await sleep(wait);
  }
}

async function get(server: ApiServer, resource: Resource, path: string): Promise<ApiResponse> {
  try {
    return await server.get(path);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    throw listFailure(server.name, resource, error.message, error.wayOut);
  }
}

/** Returns how long the server asks to wait, in milliseconds; undefined where it does not ask. */
function waitOf({ status, retryAfter }: ApiResponse): number | undefined {
  if (status !== 429 && !(status >= 500 && retryAfter !== undefined)) return undefined;
  const seconds = Number(retryAfter);
  const wait = Number.isNaN(seconds) ? SHORTEST_WAIT : seconds * 1000;
  return Math.min(Math.max(wait, SHORTEST_WAIT), LONGEST_WAIT);
}

function pageOf<T>(
  { name }: ApiServer,
  resource: Resource,
  { body }: ApiResponse,
  take: (object: unknown) => T,
): Page<T> {
  try {
    return readPage(body, resource, take);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    throw listFailure(name, resource, error.message, "expected the answer of a Kubernetes API server");
  }
}

function isResponse(outcome: readonly unknown[] | ApiResponse): outcome is ApiResponse {
  return "status" in outcome;
}

/** One page of a list. */
interface Page<T> extends Pick<PageEnd, "next"> {
  readonly items: readonly T[];
}

/**
 * Reads one answer of the API server; only one of its items is parsed into a tree at a time.
 *
 * @param take returns what to retain of an item; the list's kind and apiVersion are put into the item
 * @throws DrawbridgeError ERR_OBJECT for anything but one list of the resource's kind
 */
function readPage<T>(
  body: Iterable<Uint8Array>,
  resource: Pick<Resource, "kind" | "apiVersion">,
  take: (object: unknown) => T,
): Page<T> {
  const items: T[] = [];
  const reader = new PageReader(resource);
  for (const chunk of body) for (const item of reader.push(chunk)) items.push(take(item));
  return { items, next: reader.end().next };
}

/** Characters of the server's message that are printed. */
const LONGEST_WORDS = 300;

/** Returns the error for a list that could not be read, with server, resource, reason and way out. */
function listFailure(server: string, resource: Resource, reason: string, wayOut: string): DrawbridgeError {
  return new DrawbridgeError("ERR_INPUT", printable(`${server}: list ${resource.name}: ${reason}; ${wayOut}`));
}

/** Returns the error for a list that the server refused. */
function refusal(server: string, resource: Resource, response: ApiResponse): DrawbridgeError {
  const { reason, wayOut } = meaningOf(response.status, resource);
  const words = wordsIn(response.body).slice(0, LONGEST_WORDS);
  return listFailure(server, resource, words === "" ? reason : `${reason} (${words})`, wayOut);
}

function meaningOf(status: number, { name }: Resource): { readonly reason: string; readonly wayOut: string } {
  switch (status) {
    case 401:
      return {
        reason: "401, the server does not know who asks",
        wayOut: "log in again, or choose another user by --context or --kubeconfig",
      };
    case 403:
      return {
        reason: "403, this user may not do it",
        wayOut: `expected the verbs get and list on it in all namespaces: ask kubectl auth can-i list ${name} -A`,
      };
    case 404:
      return { reason: "404, there is no such list", wayOut: "expected the address of a Kubernetes API server" };
    case 410:
      return { reason: "410, the list expired twice while it was read", wayOut: "try again" };
    case 429:
      return { reason: "429, the server has too much to do", wayOut: "try again later" };
    default:
      return { reason: `status ${status}; expected 200`, wayOut: `see whether kubectl get ${name} -A works` };
  }
}
