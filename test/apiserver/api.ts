import type { IncomingHttpHeaders } from "node:http";
import type { Cancel, Clock } from "../../policyd/lib/clock.ts";
import { CLUSTER_POLICY_PATHS, type Definition, definitionOf, DEFINITIONS_PATH, pathOfVersion } from "./definitions.ts";
import { type List, LISTS, storedPathOf } from "./lists.ts";
import { EVENTS, EVENTS_PATH, eventNamespaceOf, eventProblems } from "./events.ts";
import { type AnswerFault, isAnswerFault, type PlannedFault, type StreamFault, type WatchFault } from "./faults.ts";
import { NODE_STATUS, NODES_PATH, nodeOfStatus, STRATEGIC_MERGE, withConditions } from "./node_status.ts";
import { keyOf, labelsOf, type RawObject, recordOf, Storage } from "./storage.ts";
import { type Answer, type Selects, Watch } from "./watch.ts";

/** The features of a server; each can be changed while it runs. */
export interface Features {
  /** Whether a watch may begin with a list (KEP-3157). */
  hasWatchList: boolean;
  /** How a watch that begins with a list is refused: by a status, or by an event if etcd is too old for it. */
  watchListRefusedBy: "status" | "event";
  /** The most objects in a page, whatever the request says. */
  largestPage: number;
  /** How an old version is refused: API servers do either. */
  expiredBy: "status" | "event";
  /**
   * The verbs that the client may use, by resource as RBAC names it, or by `RESOURCE/NAME` for one object of it;
   * undefined for all on everything.
   */
  grants: Readonly<Record<string, readonly string[]>> | undefined;
  /** The token of the permitted client; undefined for everybody. */
  token: string | undefined;
}

/** A request, with its verb in RBAC. */
export interface Asked {
  readonly verb: "list" | "watch" | "create" | "patch";
  readonly url: string;
  /** The status of the answer, once it has begun. */
  status?: number;
}

const LONGEST_WATCH = 1800;

/**
 * The part of a Kubernetes API server for reading, Events, and the status of Nodes: lists in pages, watches,
 * watch-list, bookmarks, RBAC, and faults. It knows nothing of connections.
 */
export class Api {
  readonly storage = new Storage();
  readonly features: Features = {
    hasWatchList: true,
    watchListRefusedBy: "status",
    largestPage: 500,
    expiredBy: "status",
    grants: undefined,
    token: undefined,
  };
  readonly asked: Asked[] = [];
  readonly #clock: Clock;
  readonly #served = new Set(LISTS.map(({ path }) => path));
  readonly #watches = new Set<Watch>();
  /** Lists that are being read in pages, by the token for the next page. */
  readonly #pages = new Map<string, { readonly version: number; readonly rest: readonly RawObject[] }>();
  #tokens = 0;
  /** The number of changes of the CRD. */
  #definitions = 0;
  #faults: PlannedFault[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.define({ versions: ["v1beta1", "v1alpha2"] });
  }

  /** Stores objects, or removes those that have the member `isGone`. */
  apply(objects: readonly RawObject[]): void {
    for (const { isGone, ...object } of objects) {
      const path = storedPathOf(object);
      if (isGone === true) this.storage.remove(path, keyOf(object));
      else this.storage.put(path, object);
    }
  }

  plan(...faults: readonly PlannedFault[]): void {
    this.#faults.push(...faults);
  }

  /** Removes all planned faults. */
  heal(): void {
    this.#faults = [];
  }

  /** Applies a fault to the open watches, of one list or of all. */
  strike(fault: WatchFault, path?: string): void {
    for (const watch of this.#watches) if (path === undefined || watch.path === path) watch.strike(fault);
  }

  bookmark(): void {
    for (const watch of this.#watches) watch.bookmark();
  }

  /** Sends bookmarks as a server whose cache lacks some versions. */
  late(versions: number): void {
    for (const watch of this.#watches) {
      watch.event("BOOKMARK", { metadata: { resourceVersion: `${this.storage.version - versions}` } });
    }
  }

  /** Forgets the history, and partly read lists. */
  compact(): void {
    this.storage.compact();
    this.#pages.clear();
  }

  /** Adds or removes a kind with all its objects. */
  serve(path: string, isServed: boolean): void {
    if (isServed) return void this.#served.add(path);
    for (const object of this.storage.list(path)) this.storage.remove(path, keyOf(object));
    this.#served.delete(path);
    this.strike({ type: "close" }, path);
  }

  /** Creates or changes the CRD of ClusterNetworkPolicies; without versions deletes it, after its objects. */
  define(definition: Definition): void {
    const [newest = ""] = CLUSTER_POLICY_PATHS;
    const object = definitionOf(definition);
    if (definition.versions.length > 0) this.storage.put(DEFINITIONS_PATH, object);
    else {
      for (const one of this.storage.list(newest)) this.storage.remove(newest, keyOf(one));
      this.storage.remove(DEFINITIONS_PATH, keyOf(object));
    }
    const served = definition.isEstablished === false ? [] : definition.versions.map(pathOfVersion);
    const generation = ++this.#definitions;
    const catchUp = (): void => {
      if (generation !== this.#definitions) return;
      for (const path of CLUSTER_POLICY_PATHS) {
        if (served.includes(path)) this.#served.add(path);
        else {
          this.#served.delete(path);
          this.strike({ type: "close" }, path);
        }
      }
    };
    if (definition.lag === undefined) catchUp();
    else this.#clock.after(definition.lag, catchUp);
  }

  /** Ends all watches, like a server that dies. */
  dropAll(): void {
    for (const watch of this.#watches) watch.drop();
  }

  /** Begins to answer a list or watch. @returns a function that ends it, for a client that has gone */
  open(url: string, authorization: string | undefined, to: Answer): Cancel {
    const { pathname, searchParams } = new URL(url, "http://server");
    const verb = searchParams.has("watch") ? "watch" : "list";
    const answer = this.#asked({ verb, url }, to);
    const list = LISTS.find(({ path }) => path === pathname);
    const fault = this.#takeFault(verb, pathname);
    if (fault !== undefined && isAnswerFault(fault)) return befall(answer, fault);
    if (!this.#isKnown(authorization)) return refuse(answer, 401, "Unauthorized");
    // The permission is checked before the existence of the list.
    const name = /^metadata\.name=([^,]+)$/.exec(searchParams.get("fieldSelector") ?? "")?.[1];
    if (list !== undefined && !this.#isGranted(list.name, verb, name)) {
      return refuse(
        answer,
        403,
        `${list.name} is forbidden: User "policyd" cannot ${verb} resource at the cluster scope`,
      );
    }
    if (list === undefined || !this.#served.has(pathname)) return refuse(answer, 404, "404 page not found");
    const hasLabels = selectorOf(searchParams.get("labelSelector") ?? "");
    const selects: Selects = (object) => hasLabels(object) && (name === undefined || keyOf(object) === name);
    if (verb === "list") return this.#list(list, searchParams, selects, answer, fault);
    return this.#watch(list, searchParams, selects, answer, fault);
  }

  /** Creates an object, which can only be an Event. */
  create(url: string, authorization: string | undefined, body: string, to: Answer): void {
    const { pathname } = new URL(url, "http://server");
    const answer = this.#asked({ verb: "create", url }, to);
    const fault = this.#takeFault("create", pathname);
    if (fault !== undefined && isAnswerFault(fault)) return void befall(answer, fault);
    if (!this.#isKnown(authorization)) return void refuse(answer, 401, "Unauthorized");
    const namespace = eventNamespaceOf(pathname);
    if (namespace === undefined) return void refuse(answer, 404, "404 page not found");
    if (!this.#isGranted(EVENTS, "create")) {
      return void refuse(
        answer,
        403,
        `${EVENTS} is forbidden: User "policyd" cannot create resource in the namespace "${namespace}"`,
      );
    }
    const event = recordOf(JSON.parse(body));
    const problems = eventProblems(event, namespace);
    if (problems.length > 0) return void refuse(answer, 422, problems.join(", "));
    const key = keyOf(event);
    if (this.storage.list(EVENTS_PATH).some((known) => keyOf(known) === key)) {
      return void refuse(answer, 409, `events.events.k8s.io "${key}" already exists`);
    }
    this.storage.put(EVENTS_PATH, event);
    answer.head(201, { "content-type": "application/json" });
    answer.write(body);
    answer.end();
  }

  /** Patches an object's status, which can only be a Node's. */
  patch(url: string, headers: IncomingHttpHeaders, body: string, to: Answer): void {
    const { pathname } = new URL(url, "http://server");
    const answer = this.#asked({ verb: "patch", url }, to);
    const fault = this.#takeFault("patch", pathname);
    if (fault !== undefined && isAnswerFault(fault)) return void befall(answer, fault);
    if (!this.#isKnown(headers.authorization)) return void refuse(answer, 401, "Unauthorized");
    const name = nodeOfStatus(pathname);
    if (name === undefined) return void refuse(answer, 404, "404 page not found");
    if (!this.#isGranted(NODE_STATUS, "patch")) {
      return void refuse(
        answer,
        403,
        `nodes "${name}" is forbidden: User "policyd" cannot patch resource "${NODE_STATUS}"`,
      );
    }
    if (headers["content-type"] !== STRATEGIC_MERGE) return void refuse(answer, 415, `expected ${STRATEGIC_MERGE}`);
    const node = this.storage.list(NODES_PATH).find((one) => keyOf(one) === name);
    if (node === undefined) return void refuse(answer, 404, `nodes "${name}" not found`);
    const patched = withConditions(node, recordOf(JSON.parse(body)));
    if (patched === undefined) return void refuse(answer, 501, "this server knows only patches of conditions");
    this.storage.put(NODES_PATH, patched);
    answer.head(200, { "content-type": "application/json" });
    answer.write(JSON.stringify(this.storage.list(NODES_PATH).find((one) => keyOf(one) === name)));
    answer.end();
  }

  /** Records a request, and later its status. */
  #asked(asked: Asked, to: Answer): Answer {
    this.asked.push(asked);
    return {
      head: (status, headers) => {
        asked.status = status;
        to.head(status, headers);
      },
      write: (text) => to.write(text),
      end: () => to.end(),
      reset: () => to.reset(),
    };
  }

  #isKnown(authorization: string | undefined): boolean {
    const { token } = this.features;
    return token === undefined || authorization === `Bearer ${token}`;
  }

  #isGranted(resource: string, verb: string, name?: string): boolean {
    const { grants } = this.features;
    if (grants === undefined || grants[resource]?.includes(verb) === true) return true;
    return name !== undefined && grants[`${resource}/${name}`]?.includes(verb) === true;
  }

  #takeFault(verb: string, path: string): AnswerFault | StreamFault | undefined {
    const found = this.#faults.find(({ on, path: of }) => (on === "any" || on === verb) && (of ?? path) === path);
    if (found === undefined) return undefined;
    this.#faults = this.#faults.flatMap((one) => {
      if (one !== found) return [one];
      return one.count > 1 ? [{ ...one, count: one.count - 1 }] : [];
    });
    return found.fault;
  }

  #list(
    { stored, kind, apiVersion }: List,
    query: URLSearchParams,
    selects: Selects,
    answer: Answer,
    fault: StreamFault | undefined,
  ): Cancel {
    const token = query.get("continue");
    const begun = token === null ? undefined : this.#pages.get(token);
    if (token !== null && begun === undefined) return refuse(answer, 410, "the continue token is too old");
    const { version, rest } = begun ?? {
      version: this.storage.version,
      rest: this.storage.list(stored).filter(selects),
    };
    const size = Math.min(Number(query.get("limit") ?? 0) || Infinity, this.features.largestPage);
    const metadata: Record<string, string> = { resourceVersion: `${version}` };
    if (rest.length > size) {
      metadata["continue"] = `page-${++this.#tokens}`;
      this.#pages.set(metadata["continue"], { version, rest: rest.slice(size) });
    }
    const items = rest.slice(0, size).map(({ kind: _kind, apiVersion: _apiVersion, ...item }) => item);
    const text = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata, items });
    answer.head(200, { "content-type": "application/json" });
    if (fault === undefined) {
      answer.write(text);
      answer.end();
      return () => {};
    }
    const half = text.slice(0, text.length / 2);
    answer.write(fault.type === "garbage" ? `${half}}{` : half);
    if (fault.type === "silence") return () => {};
    if (fault.type === "truncate" && fault.isReset) answer.reset();
    else answer.end();
    return () => {};
  }

  #watch(list: List, query: URLSearchParams, selects: Selects, answer: Answer, fault: StreamFault | undefined): Cancel {
    const isList = query.get("sendInitialEvents") === "true";
    const version = query.get("resourceVersion") ?? "";
    const refusedBy = this.#listRefusedBy(query, isList);
    if (refusedBy === "status") return refuse(answer, 422, "ListOptions is invalid");
    const missed = version === "" ? [] : this.storage.since(list.stored, Number(version));
    if (missed === undefined && this.features.expiredBy === "status") {
      return refuse(answer, 410, `too old resource version: ${version}`);
    }
    answer.head(200, { "content-type": "application/json" });
    const watch = this.#begin({ kind: list, answer, selects, storage: this.storage, clock: this.#clock }, query);
    if (missed === undefined) watch.strike({ type: "error", status: 410 });
    if (refusedBy === "event") watch.strike({ type: "error", status: 500 });
    const objects = version === "" ? this.storage.list(list.stored).filter(selects) : [];
    // A planned fault comes in the middle of the list that begins the watch.
    for (const object of fault === undefined ? objects : objects.slice(1)) watch.event("ADDED", object);
    if (fault !== undefined) watch.strike(fault);
    else if (isList) watch.bookmark(true);
    missed?.forEach((change) => watch.tell(change));
    return () => watch.drop();
  }

  /** Returns how invalid or unsupported parameters of watch-list are refused; undefined if they are valid. */
  #listRefusedBy(query: URLSearchParams, isList: boolean): "status" | "event" | undefined {
    if (isList !== (query.get("resourceVersionMatch") === "NotOlderThan")) return "status";
    return isList && !this.features.hasWatchList ? this.features.watchListRefusedBy : undefined;
  }

  #begin(parts: ConstructorParameters<typeof Watch>[0], query: URLSearchParams): Watch {
    const seconds = Math.min(Number(query.get("timeoutSeconds") ?? LONGEST_WATCH), LONGEST_WATCH);
    const from = Number(query.get("resourceVersion") ?? this.storage.version);
    const watch: Watch = new Watch(parts, seconds * 1000, from, () => this.#watches.delete(watch));
    this.#watches.add(watch);
    return watch;
  }
}

/** Reads label selectors, as far as they are used: `key`, `!key` and `key=value`, with commas. */
export function selectorOf(text: string): Selects {
  const terms = text.split(",").filter((term) => term !== "");
  return (object) =>
    terms.every((term) => {
      const labels = labelsOf(object);
      if (term.startsWith("!")) return !(term.slice(1) in labels);
      const [key = "", value] = term.split("=");
      return value === undefined ? key in labels : labels[key] === value;
    });
}

function befall(answer: Answer, fault: AnswerFault): Cancel {
  if (fault.type === "reset") answer.reset();
  if (fault.type === "status") refuse(answer, fault.status, "a fault of the test", fault.retryAfter);
  return () => {};
}

function refuse(answer: Answer, status: number, message: string, retryAfter?: string): Cancel {
  answer.head(status, retryAfter === undefined ? {} : { "retry-after": retryAfter });
  answer.write(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: status, message }));
  answer.end();
  return () => {};
}
