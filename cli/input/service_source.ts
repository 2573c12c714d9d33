import { problemOf } from "../../kernel/error.ts";
import { type Family, FAMILIES } from "../../kernel/ip/address.ts";
import type { Labels } from "../../objects/model.ts";
import { readLabels } from "../../objects/name.ts";
import { Reader } from "../../objects/gate/reader.ts";
import { at, listAt, textAt } from "./raw.ts";

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
  return problemOf(() => wantedEndpoints(source));
}

/** The port of a kubelet, which no load balancer may have. */
const KUBELET = 10_250;

/**
 * Returns what the API server refuses in a Service's ports beside what the gate refuses (ValidateService). The gate
 * takes these, so that a node goes on serving what it can.
 */
export function portProblems(source: unknown): readonly string[] {
  const type = textAt(source, "spec", "type") || "ClusterIP";
  const ports = listAt(source, "spec", "ports");
  const isHeadless = [at(source, "spec", "clusterIP"), at(source, "spec", "clusterIPs", 0)].includes("None");
  if (ports.length === 0)
    return isHeadless || type === "ExternalName" ? [] : ["spec.ports: none; expected at least one port"];
  const seen = new Set<string>();
  const isRepeated = (key: string): boolean => seen.size === seen.add(key).size;
  return ports.flatMap((one, i) => {
    const [name, protocol] = [textAt(one, "name") ?? "", textAt(one, "protocol") || "TCP"];
    const [port, nodePort] = [at(one, "port"), at(one, "nodePort") || undefined].map(String);
    const isNode = nodePort !== "undefined";
    const checks: readonly (readonly [field: string, value: string | undefined, isWrong: boolean, expected: string])[] =
      [
        ["name", '""', name === "" && ports.length > 1, "a name for each of several ports"],
        ["name", name, name !== "" && isRepeated(name), "a name that no other port has"],
        ["port", port, isRepeated(`port ${protocol} ${port}`), `a port that occurs once for ${protocol}`],
        ["port", port, type === "LoadBalancer" && Number(port) === KUBELET, "another port than a kubelet's"],
        ["nodePort", nodePort, isNode && type === "ClusterIP", "none with type ClusterIP"],
        [
          "nodePort",
          nodePort,
          isNode && isRepeated(`node ${protocol} ${nodePort}`),
          `a port that occurs once for ${protocol}`,
        ],
      ];
    return checks.flatMap(([field, value, isWrong, expected]) =>
      isWrong ? [`spec.ports[${i}].${field}: ${value}; expected ${expected}`] : [],
    );
  });
}
