/** The formats of a command that prints a table for people and one document for programs. */
export const DOCUMENT_FORMATS = ["table", "json", "yaml"] as const;

/** Returns a value as a document of JSON or YAML. */
export async function documentText(format: "json" | "yaml", value: unknown): Promise<string> {
  if (format === "json") return `${JSON.stringify(value, null, 2)}\n`;
  const { stringify } = await import("yaml");
  return stringify(value, { lineWidth: 0 });
}
