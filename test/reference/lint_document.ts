import { RULES } from "../../cli/policy/lint/rules.ts";

const HEAD = `# Findings of policy lint

Each finding has an ID, which is a heading here, and a severity. \`npm run docs\` writes this page.

A finding that is meant to be so is silenced where it stands, with a reason. The comment is about its own line or the line after it; where
the object begins it is about the whole object:

\`\`\`yaml
# drawbridge:ignore selects-nothing the operator creates these pods
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
\`\`\`

Objects of a cluster have the annotation \`drawbridge.dev/lint-ignore: ID,ID\` for it.
`;

/** Returns the page of all rules, the required content of docs/lint.md. */
export function lintDocument(): string {
  const sections = RULES.map(
    ({ id, severity, summary, reason, isOffByDefault = false }) =>
      `## ${id}\n\n\`${severity}\`: ${summary}\n\n${reason}${isOffByDefault ? ` Only \`--only ${id}\` reports it.` : ""}\n`,
  );
  return [HEAD, ...sections].join("\n");
}
