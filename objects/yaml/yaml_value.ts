import {
  type Alias,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
} from "yaml";
import { unreadable } from "./json_scanner.ts";
import { keyText, scalarValue } from "./yaml_scalar.ts";

/** The largest number of values that aliases may add to one document: nested aliases multiply. */
const MOST_ALIASED = 400_000;
/** The allowed names of anchors; the library takes everything up to a blank. */
const NAME = /^[\w-]+$/;
const MERGE = "<<";
const MERGE_TAG = "tag:yaml.org,2002:merge";

type Values = Record<string, unknown>;

/**
 * Returns the JSON value of a document's tree, as kubectl does (goyaml v2, decode.go; sigs.k8s.io/yaml): the entries of
 * a map and those that `<<` merges into it apply in the order of the text, and keys become texts.
 *
 * One thing differs from kubectl: a key that the map already has is refused, while for kubectl the last one counts.
 *
 * @param root has all scalars as texts (schema `failsafe`), and is not nested deeper than the stack allows
 * @param lineAt returns the line of an offset in the text
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function jsonValue(root: unknown, lineAt: (offset: number) => number): unknown {
  return new Conversion(lineAt).value(root);
}

class Conversion {
  readonly #lineAt: (offset: number) => number;
  /** The node of each anchor's name at this place of the text. */
  readonly #anchors = new Map<string, Node>();
  /** The nodes whose value is being computed. */
  readonly #open = new Set<Node>();
  /** The node of each alias resolved so far, which stays the same when another alias leads to it again. */
  readonly #targets = new Map<Alias, Node>();
  #aliased = 0;
  #aliasDepth = 0;

  constructor(lineAt: (offset: number) => number) {
    this.#lineAt = lineAt;
  }

  value(node: unknown): unknown {
    if (!isNode(node)) return null;
    if (this.#aliasDepth > 0 && ++this.#aliased > MOST_ALIASED) {
      throw this.#refusal(node, `aliases stand for more than ${MOST_ALIASED} values`);
    }
    if (isAlias(node)) return this.#aliasValue(node);
    this.#bind(node);
    if (isScalar(node)) return this.#scalarValue(node);
    this.#open.add(node);
    const value = isMap(node)
      ? this.#mapValue(node)
      : isSeq(node)
        ? node.items.map((item) => this.#itemValue(item))
        : null;
    this.#open.delete(node);
    return value;
  }

  /** Returns an item of a list, which may be a map of one entry without braces: `[a: 1]`. */
  #itemValue(item: unknown): unknown {
    return isPair(item) ? this.#entriesValue([item]) : this.value(item);
  }

  #mapValue({ items }: YAMLMap): Values {
    return this.#entriesValue(items);
  }

  #entriesValue(items: readonly Pair[]): Values {
    const values: Values = {};
    const written = new Set<string>();
    for (const { key, value } of items) {
      if (isMergeKey(key)) this.#merge(values, value);
      else {
        const name = this.#keyOf(key);
        if (written.has(name)) throw this.#refusal(key, "a key stands twice in one object");
        written.add(name);
        set(values, name, this.value(value));
      }
    }
    return values;
  }

  /** Merges one map, or several of which the first one wins. */
  #merge(values: Values, source: unknown): void {
    const sources = isSeq(source) ? source.items.toReversed() : [source];
    // Anchors are bound in the order of the text.
    const merged = (isSeq(source) ? source.items : [source]).map((one) => this.value(one)).toReversed();
    for (const [index, value] of merged.entries()) {
      if (!isRecord(value)) throw this.#refusal(sources[index], `${MERGE} expects an object or a list of objects`);
      for (const [name, member] of Object.entries(value)) set(values, name, member);
    }
  }

  #keyOf(key: unknown): string {
    const target = isAlias(key) ? this.#targetOf(key) : key;
    if (isScalar(target)) this.#bind(target);
    const value = target === null ? null : isScalar(target) ? this.#scalar(target) : undefined;
    if (value === undefined || value === null) throw this.#refusal(key, "a key that is not a text; expected a text");
    return keyText(value);
  }

  /** Binds an anchor's name to its node for the rest of the text. */
  #bind(node: Exclude<Node, Alias>): void {
    if (this.#aliasDepth > 0 || node.anchor === undefined) return;
    if (!NAME.test(node.anchor))
      throw this.#refusal(node, `&${node.anchor}; expected a name of letters, figures, _ and -`);
    this.#anchors.set(node.anchor, node);
  }

  #scalarValue(node: Scalar): unknown {
    const value = this.#scalar(node);
    return typeof value === "bigint" ? Number(value) : value;
  }

  #scalar(node: Scalar) {
    const text = typeof node.value === "string" ? node.value : "";
    const value = scalarValue(text, node.type === undefined || node.type === "PLAIN", node.tag);
    if (value !== undefined) return value;
    const tag = node.tag === undefined ? "" : ` with the tag ${node.tag}`;
    throw this.#refusal(node, `${JSON.stringify(text.slice(0, 40))}${tag}; expected a value that JSON has`);
  }

  #aliasValue(alias: Alias): unknown {
    const target = this.#targetOf(alias);
    if (this.#open.has(target)) throw this.#refusal(alias, `the value of &${alias.source} contains itself`);
    this.#aliasDepth++;
    const value = this.value(target);
    this.#aliasDepth--;
    return value;
  }

  #targetOf(alias: Alias): Node {
    const target = this.#targets.get(alias) ?? this.#anchors.get(alias.source);
    if (target === undefined) throw this.#refusal(alias, `*${alias.source} has no anchor before it`);
    this.#targets.set(alias, target);
    return target;
  }

  #refusal(node: unknown, reason: string): Error {
    const offset = isNode(node) ? node.range?.[0] : undefined;
    return unreadable(reason, offset === undefined ? undefined : this.#lineAt(offset));
  }
}

function isMergeKey(key: unknown): boolean {
  if (!isScalar(key) || key.value !== MERGE) return false;
  return key.tag === MERGE_TAG || (key.tag === undefined && key.type === "PLAIN");
}

function isRecord(value: unknown): value is Values {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Sets a member, also one named `__proto__`. */
function set(values: Values, name: string, value: unknown): void {
  Object.defineProperty(values, name, { value, writable: true, enumerable: true, configurable: true });
}
