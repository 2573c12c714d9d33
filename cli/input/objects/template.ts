import type { LocatedObject } from "../../../objects/yaml/documents.ts";
import { at, listAt, membersAt, textAt } from "../raw.ts";

const GROUP = "template.openshift.io/";

/**
 * Returns the objects of an OpenShift Template with the values that its parameters have by default, as `oc process`
 * does; any other object as it is.
 */
export function openTemplate(located: LocatedObject): readonly LocatedObject[] {
  const { value, lineOf } = located;
  const isTemplate = textAt(value, "kind") === "Template" && textAt(value, "apiVersion")?.startsWith(GROUP) === true;
  if (!isTemplate) return [located];
  const values = new Map(
    listAt(value, "parameters").map((one) => {
      const text = at(one, "value") ?? "";
      return [textAt(one, "name") ?? "", typeof text === "string" ? text : JSON.stringify(text)];
    }),
  );
  const labels = at(value, "labels");
  return listAt(value, "objects").map((object, i) => ({
    ...located,
    value: withLabels(filled(object, values), labels),
    lineOf: (path) => lineOf(["objects", i, ...path]),
  }));
}

/** Returns a value with its parameters: `${NAME}` within a text, and `${{NAME}}` for a number or a boolean. */
function filled(value: unknown, values: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") {
    const whole = /^\$\{\{(\w+)\}\}$/.exec(value)?.[1];
    if (whole !== undefined && values.has(whole)) return plain(values.get(whole) ?? "");
    return value.replace(/\$\{(\w+)\}/g, (text, name: string) => values.get(name) ?? text);
  }
  if (Array.isArray(value)) return value.map((one: unknown) => filled(one, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, values)]));
}

/** Returns a number or a boolean as such, and any other text as it is. */
function plain(text: string): unknown {
  return /^(\d+|true|false)$/.test(text) ? JSON.parse(text) : text;
}

function withLabels(object: unknown, labels: unknown): unknown {
  const metadata = at(object, "metadata");
  if (typeof object !== "object" || typeof metadata !== "object" || typeof labels !== "object") return object;
  return {
    ...object,
    metadata: {
      ...metadata,
      labels: Object.fromEntries([...membersAt(metadata, "labels"), ...Object.entries(labels ?? {})]),
    },
  };
}
