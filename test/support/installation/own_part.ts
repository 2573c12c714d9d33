import assert from "node:assert/strict";
import { mergeList, type OwnPart } from "../../../policyd/installation/merged_list.ts";
import { isObject } from "../../../cni/json.ts";
import type { JsonObject } from "../../../policyd/installation/list_text.ts";

/** Returns our part of a list, small, with further members of our entry. */
export function ownPartNamed(name: string, members: JsonObject = {}, chain: readonly JsonObject[] = []): OwnPart {
  const capabilities = { bandwidth: true, ips: true, mac: true, portMappings: true };
  const entry = { type: "drawbridge", capabilities, ...members };
  return { name, cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"], entry, chain };
}

/** Parses a list as any other program reads it: completely, as values. */
export function listValues(text: string): JsonObject & { readonly plugins: readonly JsonObject[] } {
  const value: unknown = JSON.parse(text);
  assert.ok(isObject(value) && Array.isArray(value["plugins"]));
  const plugins: readonly unknown[] = value["plugins"];
  return { ...value, plugins: plugins.filter(isObject) };
}

/** Returns the text of the list that is written when no other program has written one. */
export function freshText(own: OwnPart): string {
  return Buffer.from(mergeList(undefined, own).text, "latin1").toString("utf8");
}
