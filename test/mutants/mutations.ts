import { stripTypeScriptTypes } from "node:module";
import { type AnyNode, type Literal, type LogicalExpression, parse } from "acorn";

/** One small change of a source text. */
export interface Mutation {
  /** `line:column:operator`, which no other mutation of the text has. */
  readonly id: string;
  /** The replaced part: an expression, by another one, or a statement, by none. */
  readonly kind: "expression" | "statement";
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** The changed part for people to read, before and after; the latter is empty if it is left out. */
  readonly from: string;
  readonly to: string;
}

/** A source as JavaScript, with everything in its place, and all its mutations. */
export interface Mutable {
  readonly code: string;
  readonly mutations: readonly Mutation[];
}

const OTHER_OPERATOR: ReadonlyMap<string, string> = new Map([
  ["<", "<="],
  ["<=", "<"],
  [">", ">="],
  [">=", ">"],
  ["===", "!=="],
  ["!==", "==="],
  ["+", "-"],
  ["-", "+"],
  ["*", "/"],
  ["/", "*"],
  ["%", "*"],
  ["<<", ">>"],
  [">>", "<<"],
  [">>>", "<<"],
  ["&", "|"],
  ["|", "&"],
  ["^", "&"],
  ["+=", "-="],
  ["-=", "+="],
  ["|=", "="],
  ["??=", "="],
]);

const OTHER_METHOD: ReadonlyMap<string, string> = new Map([
  ["some", "every"],
  ["every", "some"],
  ["min", "max"],
  ["max", "min"],
  ["startsWith", "endsWith"],
  ["endsWith", "startsWith"],
]);

/** Methods whose result is like their object, so that the call can be left out. */
const OPTIONAL_CALLS: ReadonlySet<string> = new Set(
  "filter sort toSorted reverse toReversed slice subarray trim toLowerCase flat".split(" "),
);

/** Returns the mutations of a source. @throws SyntaxError for a text that is not erasable TypeScript */
export function mutable(source: string): Mutable {
  const code = stripTypeScriptTypes(source);
  const finder = new Finder(code);
  finder.visit(parse(code, { ecmaVersion: "latest", sourceType: "module" }));
  return { code, mutations: finder.found };
}

class Finder {
  readonly found: Mutation[] = [];
  readonly #code: string;
  readonly #ids = new Map<string, number>();
  /** The last statements of functions, which end them anyway. */
  readonly #lastStatements = new Set<AnyNode | undefined>();

  constructor(code: string) {
    this.#code = code;
  }

  /** @param inMessage whether texts in the node are for people: they are not mutated */
  visit(node: AnyNode, parent?: AnyNode, inMessage = false): void {
    if ("body" in node && node.type.includes("Function") && node.body !== null && "body" in node.body) {
      if (Array.isArray(node.body.body)) this.#lastStatements.add(node.body.body.at(-1));
    }
    this.#mutateStatement(node);
    this.#mutateExpression(node, parent);
    this.#mutateCall(node, parent);
    this.#mutateCondition(node);
    this.#mutateValue(node, parent, inMessage);
    for (const child of childrenOf(node)) this.visit(child, node, inMessage || isMessage(node));
  }

  #mutateStatement(node: AnyNode): void {
    switch (node.type) {
      case "ExpressionStatement":
        if (node.expression.type === "CallExpression" && node.expression.callee.type === "Super") return;
        return this.#add("statement", node, node, ";", "");
      case "ReturnStatement":
        if (this.#lastStatements.has(node)) return;
        return this.#add("statement", node, node, ";", "");
      case "ThrowStatement":
      case "ContinueStatement":
      case "BreakStatement":
        return this.#add("statement", node, node, ";", "");
      default:
    }
  }

  #mutateCondition(node: AnyNode): void {
    switch (node.type) {
      case "IfStatement":
      case "ConditionalExpression":
        // The other conditions have mutations of their own that are as good.
        if (/^(Identifier|CallExpression|MemberExpression)$/.test(node.test.type) || isComparison(node.test))
          this.#add("condition", node.test, node.test, `!(${this.#text(node.test)})`);
        return;
      case "WhileStatement":
        return this.#add("condition", node.test, node.test, "false");
      default:
    }
  }

  #mutateExpression(node: AnyNode, parent: AnyNode | undefined): void {
    switch (node.type) {
      case "BinaryExpression":
      case "AssignmentExpression": {
        const other = OTHER_OPERATOR.get(node.operator);
        if (other !== undefined && !joinsTexts(node)) this.#add("operator", node, node, this.#around(node, other));
        return;
      }
      case "LogicalExpression": {
        const at = this.#code.indexOf(node.operator, node.left.end);
        this.#add("operand", node.left, node, this.#code.slice(at + node.operator.length, node.end), "");
        if (!isEmptyDefault(node)) this.#add("operand", node.right, node, this.#code.slice(node.start, at), "");
        return;
      }
      case "UnaryExpression": {
        const argument = this.#code.slice(node.start + node.operator.length, node.end);
        if (node.operator === "!") this.#add("operator", node, node, `!!${argument}`);
        if (node.operator === "-") this.#add("operator", node, node, argument);
        return;
      }
      case "UpdateExpression":
        if (parent?.type === "ForStatement") return;
        return this.#add("operator", node, node, this.#text(node).replace(/\+\+|--/, otherStep));
      default:
    }
  }

  #mutateCall(node: AnyNode, parent: AnyNode | undefined): void {
    if (node.type === "ArrowFunctionExpression" && node.body.type === "CallExpression")
      this.#add("body", node.body, node.body, "undefined");
    if (node.type !== "CallExpression") return;
    const { callee } = node;
    const [first] = node.arguments;
    if (callee.type === "Identifier" && first !== undefined && first.type !== "SpreadElement")
      if (parent?.type !== "ExpressionStatement") this.#add("call", node, node, this.#text(first));
    if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier" || callee.computed) return;
    // A part of an optional chain cannot be replaced by itself.
    if (this.#text(callee).includes("?.")) return;
    const { name, start } = callee.property;
    const object = this.#code.slice(node.start, this.#code.lastIndexOf(".", start));
    if (OPTIONAL_CALLS.has(name)) this.#add("call", node, node, object);
    const other = OTHER_METHOD.get(name);
    if (other !== undefined)
      this.#add("call", node, node, `${object}.${other}${this.#code.slice(callee.end, node.end)}`);
  }

  #mutateValue(node: AnyNode, parent: AnyNode | undefined, inMessage: boolean): void {
    switch (node.type) {
      case "Literal": {
        const other = otherLiteral(node, parent, inMessage);
        if (other !== undefined) this.#add("literal", node, node, other);
        return;
      }
      case "TemplateLiteral":
        if (!inMessage && parent?.type !== "TaggedTemplateExpression") this.#add("literal", node, node, '""');
        return;
      case "ArrayExpression":
        for (const element of node.elements) {
          if (element === null) continue;
          const kept = node.elements.filter((other) => other !== element);
          this.#add("element", element, node, `[${kept.map((other) => this.#element(other)).join(", ")}]`, "");
        }
        return;
      case "ObjectExpression":
        for (const property of node.properties) {
          if (property.type === "Property" && (property.kind !== "init" || property.value.type === "Literal")) continue;
          const kept = node.properties.filter((other) => other !== property);
          this.#add("property", property, node, `{${kept.map((other) => this.#text(other)).join(", ")}}`, "");
        }
        return;
      default:
    }
  }

  /** Adds the mutation that replaces a node, which for people changes a part of it. */
  #add(operator: string, changed: AnyNode, node: AnyNode, replacement: string, to = replacement): void {
    const before = this.#code.slice(0, changed.start).split("\n");
    const id = `${before.length}:${(before.at(-1) ?? "").length + 1}:${operator}`;
    const times = (this.#ids.get(id) ?? 0) + 1;
    this.#ids.set(id, times);
    this.found.push({
      id: times === 1 ? id : `${id}-${times}`,
      kind: operator === "statement" ? "statement" : "expression",
      start: node.start,
      end: node.end,
      replacement,
      from: this.#text(changed),
      to,
    });
  }

  #text({ start, end }: AnyNode): string {
    return this.#code.slice(start, end);
  }

  #element(node: AnyNode | null): string {
    if (node === null) return "";
    return node.type === "SpreadElement" ? this.#text(node) : `(${this.#text(node)})`;
  }

  /** Returns the text of a node with another operator between its sides. */
  #around({ left, operator, start, end }: AnyNode & { left: AnyNode; operator: string }, other: string): string {
    const at = this.#code.indexOf(operator, left.end);
    return this.#code.slice(start, at) + other + this.#code.slice(at + operator.length, end);
  }
}

/** Yields the nodes within a node in which something can be mutated: not the names of modules and properties. */
function* childrenOf(node: AnyNode): Generator<AnyNode> {
  if (/^(Import|ExportAll)/.test(node.type) && node.type !== "ImportExpression") return;
  for (const [name, value] of Object.entries(node)) {
    if (name === "key" && !("computed" in node && node.computed)) continue;
    if (name === "source" && node.type === "ExportNamedDeclaration") continue;
    const children: readonly unknown[] = Array.isArray(value) ? value : [value];
    for (const child of children) if (isNode(child)) yield child;
  }
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function isMessage(node: AnyNode): boolean {
  if (node.type === "ThrowStatement") return true;
  return node.type === "NewExpression" && node.callee.type === "Identifier" && node.callee.name.endsWith("Error");
}

function isComparison(node: AnyNode): boolean {
  return node.type === "BinaryExpression" && !isEquality(node);
}

function isEquality(node: AnyNode): boolean {
  return node.type === "BinaryExpression" && /^[!=]==?$/.test(node.operator);
}

/** Whether a node has a default that only the types ask for, or that has a mutation of its own. */
function isEmptyDefault({ operator, right }: LogicalExpression): boolean {
  if (operator !== "??") return false;
  return right.type === "Literal" || (right.type === "ArrayExpression" && right.elements.length === 0);
}

/** Whether a "+" is certain to join texts. */
function joinsTexts(node: AnyNode): boolean {
  if (node.type !== "BinaryExpression" || node.operator !== "+") return false;
  return [node.left, node.right].some(
    (side) =>
      side.type === "TemplateLiteral" ||
      (side.type === "Literal" && typeof side.value === "string") ||
      joinsTexts(side),
  );
}

function otherStep(step: string): string {
  return step === "++" ? "--" : "++";
}

function otherLiteral({ value }: Literal, parent: AnyNode | undefined, inMessage: boolean): string | undefined {
  switch (typeof value) {
    case "bigint":
      return `${value + 1n}n`;
    case "number":
      return String(value + 1);
    case "boolean":
      return String(!value);
    case "string":
      // A text that is compared has the operator's mutation.
      if (inMessage || parent === undefined || isEquality(parent) || parent.type === "ExpressionStatement")
        return undefined;
      return value === "" ? '"mutant"' : '""';
    default:
      return undefined;
  }
}
