import path from "node:path";
import type { RuleTester } from "oxlint/plugins-dev";
import { brokenBoundaries } from "./boundaries.ts";

type Rule = Parameters<RuleTester["run"]>[1];

interface Import {
  range: [number, number];
  readonly source: { readonly type: string; readonly value?: unknown } | null;
}

type Specifier =
  | { readonly type: "ImportSpecifier"; readonly imported: ExportedName }
  | { readonly type: "ExportSpecifier"; readonly local: ExportedName }
  | { readonly type: "ImportDefaultSpecifier" | "ImportNamespaceSpecifier" };

type ExportedName = { readonly name: string } | { readonly value: string };

/**
 * Reports every import, export-from and import() that a rule of boundaries.ts forbids.
 *
 * oxlint has no-restricted-imports, but its options for one file replace those for another instead of adding to them,
 * so rules that overlap would have to be written out for each combination.
 */
const boundaries: Rule = {
  create(context) {
    const file = path.relative(context.cwd, context.filename).split(path.sep).join("/");
    const report = (node: Import, names: readonly string[]): void => {
      const specifier = node.source?.value;
      if (typeof specifier !== "string") return;
      for (const message of brokenBoundaries(file, specifier, names)) context.report({ message, node });
    };
    return {
      ImportDeclaration: (node) => report(node, node.specifiers.map(importedName)),
      ExportNamedDeclaration: (node) => report(node, node.specifiers.map(importedName)),
      ExportAllDeclaration: (node) => report(node, ["*"]),
      ImportExpression: (node) => report(node, ["*"]),
    };
  },
};

function importedName(specifier: Specifier): string {
  switch (specifier.type) {
    case "ImportSpecifier":
      return nameOf(specifier.imported);
    case "ExportSpecifier":
      return nameOf(specifier.local);
    case "ImportDefaultSpecifier":
      return "default";
    case "ImportNamespaceSpecifier":
      return "*";
  }
}

function nameOf(name: ExportedName): string {
  return "name" in name ? name.name : name.value;
}

/** oxlint loads a plugin by its default export. */
export default { meta: { name: "drawbridge" }, rules: { boundaries } };
