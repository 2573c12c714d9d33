import { DrawbridgeError } from "../../kernel/error.ts";
import { type Family, FAMILIES } from "../../kernel/ip/address.ts";
import type { Labels } from "../../objects/model.ts";
import { readLabels } from "../../objects/name.ts";
import { Reader } from "../../objects/gate/reader.ts";

/** The fields of a Service that the model omits, since the daemon uses EndpointSlices. */
export interface WantedEndpoints {
  /** Undefined where the Service has no selector. */
  readonly selector: Labels | undefined;
  /** In the order of the Service's `ipFamilies`. */
  readonly families: readonly Family[];
  /** Whether the API server gives it a second family. */
  readonly familyPolicy: (typeof POLICIES)[number];
}

const POLICIES = ["SingleStack", "PreferDualStack", "RequireDualStack"] as const;

/** Reads a Service's source. @throws DrawbridgeError ERR_OBJECT for what the API server would refuse */
export function wantedEndpoints(source: unknown): WantedEndpoints {
  const spec = new Reader(source, "").object("spec");
  const selector = readLabels(spec, "selector");
  const families = spec.optionalList("ipFamilies", 2) ?? [];
  return {
    familyPolicy: spec.oneOfOrEmpty("ipFamilyPolicy", POLICIES, "SingleStack"),
    selector: Object.keys(selector).length === 0 ? undefined : selector,
    families: FAMILIES.filter((family) => families.includes(`IPv${family}`)).sort(
      (a, b) => families.indexOf(`IPv${a}`) - families.indexOf(`IPv${b}`),
    ),
  };
}

/** Returns why {@link wantedEndpoints} refuses a Service; undefined where it does not. */
export function wantedProblem(source: unknown): string | undefined {
  try {
    wantedEndpoints(source);
    return undefined;
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return error.message;
  }
}
