import { stripTypeScriptTypes } from "node:module";
import { type AnyNode, type Expression, parse } from "acorn";

/** Stands for a value that is known only when the program runs. */
export const VALUE = "…";

/** Returns the texts that a name stands for; undefined where they are unknown. */
export type Lookup = (name: string) => readonly string[] | undefined;

/** A node of a source, with those around it, the innermost one first. */
export interface Placed {
  readonly node: AnyNode;
  readonly around: readonly AnyNode[];
}

/** Returns all nodes of TypeScript source in their order. @throws SyntaxError where the text is not erasable TypeScript */
export function nodesIn(source: string): readonly Placed[] {
  return below(parse(stripTypeScriptTypes(source), { ecmaVersion: "latest", sourceType: "module" }), []);
}

/** Returns a node and all nodes in it. */
export function below(node: AnyNode, around: readonly AnyNode[]): readonly Placed[] {
  const inner = Object.values(node)
    .flatMap((value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]))
    .filter(isNode);
  return [{ node, around }, ...inner.flatMap((one) => below(one, [node, ...around]))];
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

/** Returns the name of an identifier, a private one too; undefined for any other node. */
export function nameOf(node: AnyNode | null | undefined): string | undefined {
  return node?.type === "Identifier" || node?.type === "PrivateIdentifier" ? node.name : undefined;
}

/**
 * Returns every text that an expression can be, with {@link VALUE} for each unknown part; undefined for an expression
 * that is not a text: neither string nor template, nor a choice or a sum of them, nor a known name.
 */
export function textsOf(node: AnyNode, lookup: Lookup): readonly string[] | undefined {
  switch (node.type) {
    case "Literal":
      return typeof node.value === "string" ? [node.value] : undefined;
    case "TemplateLiteral":
      return combined(
        node.quasis.flatMap(({ value }, i) => {
          const expression = node.expressions[i];
          const text = [value.cooked ?? ""];
          return expression === undefined ? [text] : [text, textsOfValue(expression, lookup)];
        }),
      );
    case "BinaryExpression":
      return combined(termsOf(node).map((term) => textsOf(term, lookup)));
    case "LogicalExpression":
      // An empty text stands only for a value that is missing.
      return textsOf(node.left, lookup) ?? nonempty(textsOf(node.right, lookup));
    case "ConditionalExpression": {
      const { test } = node;
      const several = textsOf(node.alternate, lookup);
      // Of a choice between one thing and several, the text about several stands for both.
      if (test.type === "BinaryExpression" && test.right.type === "Literal" && test.right.value === 1) return several;
      const first = textsOf(node.consequent, lookup);
      return first === undefined || several === undefined ? (first ?? several) : [...first, ...several];
    }
    case "Identifier":
      return lookup(node.name);
    default:
      return undefined;
  }
}

/** Returns the terms of a sum, one node for anything else. */
export function termsOf(node: AnyNode): readonly AnyNode[] {
  return node.type === "BinaryExpression" && node.operator === "+" ? [...termsOf(node.left), node.right] : [node];
}

/** Returns a lookup of the constants among nodes, the first one of a name. */
export function constantsAmong(nodes: readonly Placed[], otherwise: Lookup = () => undefined): Lookup {
  const lookup = (name: string): readonly string[] | undefined => {
    const value = initialValue(nodes, name);
    if (value === undefined) return otherwise(name);
    return below(value, []).some(({ node }) => nameOf(node) === name) ? undefined : textsOf(value, lookup);
  };
  return lookup;
}

/** Returns the value that a constant begins with. */
export function initialValue(nodes: readonly Placed[], name: string): Expression | undefined {
  for (const { node } of nodes)
    if (node.type === "VariableDeclarator" && nameOf(node.id) === name) return node.init ?? undefined;
  return undefined;
}

/** A value that is a text only in one case of several is unknown. */
function textsOfValue(node: Expression, lookup: Lookup): readonly string[] {
  const cases = node.type === "ConditionalExpression" ? [node.consequent, node.alternate] : [];
  const isPartlyText = cases.some((one) => textsOf(one, lookup) === undefined);
  if (isPartlyText || node.type === "LogicalExpression") return [VALUE];
  return textsOf(node, lookup) ?? [VALUE];
}

/** Returns each combination of the parts' texts; undefined where no part is a text. */
function combined(parts: readonly (readonly string[] | undefined)[]): readonly string[] | undefined {
  if (parts.every((part) => part === undefined)) return undefined;
  return parts.reduce<readonly string[]>(
    (begun, part) => begun.flatMap((text) => (part ?? [VALUE]).map((next) => text + next)),
    [""],
  );
}

function nonempty(texts: readonly string[] | undefined): readonly string[] | undefined {
  return texts?.every((text) => text === "") === true ? undefined : texts;
}
