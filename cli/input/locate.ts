import { nameOf } from "../../objects/gate/gate.ts";
import type { Direction } from "../../objects/semantics/policies/flow.ts";
import type { Manifest } from "./manifests.ts";
import { locationText, ruleText } from "./place.ts";

/** The place of an object, or of a rule of it. */
export interface Place {
  /** Such as `NetworkPolicy shop/web ingress[0]`; without a rule where the policy isolates. */
  readonly name: string;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** Returns the place of an object by its kind and key, or of a rule of it. */
export type Locate = (name: string, direction?: Direction, rule?: number) => Place;

/** Returns a function that locates the objects of a list. */
export function locator(manifests: readonly Manifest[]): Locate {
  return locatorIn(new Map(manifests.map((manifest) => [nameOf(manifest.object), manifest])));
}

/** Returns a function that locates objects in a map by their kinds and keys. */
export function locatorIn(manifests: ReadonlyMap<string, Manifest>): Locate {
  return (name, direction, rule) => {
    const manifest = manifests.get(name);
    if (direction === undefined || rule === undefined)
      return { name, file: manifest?.file, line: manifest?.lineOf([]) };
    const ofRule = `${name} ${ruleText(manifest?.object, direction, rule)}`;
    return { name: ofRule, file: manifest?.file, line: manifest?.lineOf(["spec", direction, rule]) };
  };
}

/** Returns a place for people: `NetworkPolicy shop/web ingress[0] (shop.yaml:12)`. */
export function placeText({ name, file, line }: Place): string {
  return file === undefined || line === undefined ? name : `${name} (${locationText(file, line)})`;
}
