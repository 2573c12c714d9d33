import type { Failure } from "./failure.ts";
import { member } from "./json_member.ts";
import type { ReflectedObjects } from "./reflector.ts";
import { type Listed, type Resource, versionsOf } from "./resources.ts";
import type { Serving } from "./serving.ts";

/** The largest number of versions and of conditions read: real definitions have far fewer. */
const MOST_READ = 100;

/** The content of a definition. */
type Definition =
  | { readonly type: "served" | "withheld"; readonly versions: readonly number[]; readonly isEstablished: boolean }
  | { readonly type: "gone" }
  /** The definition cannot be read, or not be understood. */
  | { readonly type: "unknown" };

const UNKNOWN: Definition = { type: "unknown" };
const GONE: Definition = { type: "gone" };

/**
 * Determines whether a server has a kind, and in which versions, from the kind's CustomResourceDefinition.
 *
 * A definition is served once its names are accepted: the API server applies the same rule (apiextensions-apiserver,
 * customresource_handler.go).
 */
export class KindDefinition implements ReflectedObjects {
  readonly #listed: Listed;
  readonly #resource: Resource;
  readonly #versions: readonly string[];
  readonly #changed: () => void;
  readonly #refused: () => void;
  /** Undefined before the first answer. */
  #definition: Definition | undefined;
  /** The definition found by the list in progress; undefined when no list is being read. */
  #list: Definition | undefined;
  #hasChanged = false;

  /**
   * @param changed called when {@link serving} has changed
   * @param refused called when the right to read the definition is missing, once each time that this begins
   */
  constructor(listed: Listed, resource: Resource, changed: () => void, refused: () => void) {
    this.#listed = listed;
    this.#resource = resource;
    this.#versions = versionsOf(resource).map(({ apiVersion }) => apiVersion);
    this.#changed = changed;
    this.#refused = refused;
  }

  /** @param isExpected whether an answer about the definition may still come */
  serving(isExpected: boolean): Serving {
    const all = this.#versions.map((_, index) => index);
    const { type } = this.#definition ?? { type: isExpected ? "pending" : "unknown" };
    const versions = this.#definition?.type === "served" ? this.#definition.versions : all;
    return { type, versions };
  }

  /** The reason why a defined kind cannot be read; undefined without one. */
  get problem(): string | undefined {
    const definition = this.#definition;
    if (definition?.type !== "withheld" || !definition.isEstablished) return undefined;
    const expected = this.#versions.join(" or ");
    return `${this.#resource.name}: served in no version that this daemon knows; expected ${expected}: what is known stays`;
  }

  begin(): void {
    this.#list = GONE;
  }

  complete(): void {
    this.#set(this.#list ?? GONE);
    this.#list = undefined;
  }

  without(failure: Failure): void {
    const isRefused = failure.type === "refused" && failure.status === 403;
    if (isRefused && this.#definition?.type !== "unknown") this.#refused();
    this.#list = undefined;
    this.#set(UNKNOWN);
  }

  put(value: unknown): void {
    if (member(value, "metadata", "name") !== this.#listed.objectName) return;
    const definition = this.#read(value);
    if (this.#list === undefined) this.#set(definition);
    else this.#list = definition;
  }

  remove(value: unknown): void {
    if (member(value, "metadata", "name") !== this.#listed.objectName) return;
    if (this.#list === undefined) this.#set(GONE);
    else this.#list = GONE;
  }

  flush(): void {
    if (!this.#hasChanged) return;
    this.#hasChanged = false;
    this.#changed();
  }

  #set(definition: Definition): void {
    this.#definition = definition;
    this.#hasChanged = true;
  }

  #read(value: unknown): Definition {
    const [versions, conditions] = [member(value, "spec", "versions"), member(value, "status", "conditions")];
    if (!Array.isArray(versions)) return UNKNOWN;
    const served = new Set(
      versions.slice(0, MOST_READ).flatMap((version: unknown) => {
        return member(version, "served") === true ? [member(version, "name")] : [];
      }),
    );
    const known = this.#versions.flatMap((apiVersion, index) => {
      return served.has(apiVersion.slice(apiVersion.indexOf("/") + 1)) ? [index] : [];
    });
    const isTrue = (type: string): boolean =>
      Array.isArray(conditions) &&
      conditions
        .slice(0, MOST_READ)
        .some((condition: unknown) => member(condition, "type") === type && member(condition, "status") === "True");
    const isEstablished = isTrue("Established") || isTrue("NamesAccepted");
    return { type: isEstablished && known.length > 0 ? "served" : "withheld", versions: known, isEstablished };
  }
}
