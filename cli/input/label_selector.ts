import type { LabelRequirement, LabelSelector } from "../../objects/model.ts";
import { frozenLabels } from "../../objects/name.ts";

const KEY = String.raw`((?:[a-z0-9.-]+\/)?[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)`;
const VALUE = String.raw`([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?|)`;
const FORMS: readonly (readonly [form: RegExp, operator: LabelRequirement["operator"]])[] = [
  [new RegExp(String.raw`^${KEY} *==? *${VALUE}$`), "In"],
  [new RegExp(String.raw`^${KEY} *!= *${VALUE}$`), "NotIn"],
  [new RegExp(String.raw`^${KEY} +in +\(([\w., -]*)\)$`), "In"],
  [new RegExp(String.raw`^${KEY} +notin +\(([\w., -]*)\)$`), "NotIn"],
  [new RegExp(String.raw`^${KEY}$`), "Exists"],
  [new RegExp(String.raw`^! *${KEY}$`), "DoesNotExist"],
];

/** Reads a selector of labels as `kubectl -l` does: `app=web,tier in (a,b),!old`. @returns undefined for other texts */
export function parseLabelSelector(text: string): LabelSelector | undefined {
  const matchExpressions = text.split(/,(?![^(]*\))/).map((part) => requirementOf(part.trim()));
  const known = matchExpressions.filter((one) => one !== undefined);
  return known.length < matchExpressions.length
    ? undefined
    : { matchLabels: frozenLabels([]), matchExpressions: known };
}

function requirementOf(text: string): LabelRequirement | undefined {
  for (const [form, operator] of FORMS) {
    const [, key, values] = form.exec(text) ?? [];
    if (key === undefined) continue;
    return { key, operator, values: values === undefined ? [] : values.split(",").map((value) => value.trim()) };
  }
  return undefined;
}
