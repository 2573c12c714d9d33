import type * as v from "valibot";
import type { ClusterObject, Pod } from "../../objects/model.ts";
import { printable, shortList } from "../../objects/printable.ts";
import { isShadow } from "../../objects/shadow_annotation.ts";
import type { PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import type { PolicyOptions } from "../../objects/semantics/policies/objects.ts";
import { tellUnknown } from "./explain/unknown_match.ts";
import { tellOversizes } from "./size.ts";
import { type ServiceSettings, serviceSettingsOf } from "../cluster/service_world.ts";
import { configurationOf, policyOptionsOf } from "../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../input/input_schema.ts";
import { loadManifests, namespaceFor } from "../input/load.ts";
import type { Manifests } from "../input/manifests.ts";
import type { Io } from "../io.ts";
import { controllerEntries, type GivenController, givenControllers, runningOf } from "../ways_in/controller_option.ts";

/** The most names in a line. */
const MOST_NAMED = 5;

/** The schema of the options of a command that answers from one set of objects. */
export const policyInputEntries = { ...inputEntries, ...configurationEntries, ...controllerEntries };

/** One set of objects, and what a command's options say of the nodes and the controllers. */
export interface PolicyInput extends Pick<Manifests, "manifests" | "wayObjects"> {
  readonly objects: readonly ClusterObject[];
  /** The pods that have not finished. */
  readonly running: readonly Pod[];
  readonly given: readonly GivenController[];
  readonly options: PolicyOptions;
  readonly settings: ServiceSettings;
  /** For names without one. */
  readonly namespace: string;
}

/** Reads the objects. @throws DrawbridgeError ERR_CONFIGURATION, ERR_OBJECT for a controller, and as loadManifests */
export async function readPolicyInput(
  io: Io,
  { config, ingressController, ...input }: v.InferOutput<v.ObjectSchema<typeof policyInputEntries, undefined>>,
): Promise<PolicyInput> {
  const configuration = configurationOf(io, config, input.filename);
  const options = policyOptionsOf(configuration);
  const { manifests, wayObjects } = await loadManifests(io, { ...input, waysIn: true });
  const objects = manifests.map(({ object }) => object);
  const running = runningOf(objects);
  const given = givenControllers(ingressController, running);
  const namespace = await namespaceFor(io, input, input.cluster);
  return {
    manifests,
    wayObjects,
    objects,
    running,
    given,
    options,
    settings: serviceSettingsOf(configuration),
    namespace,
  };
}

/** Prints on stderr what an answer for many pods leaves out: policies in shadow, the bounds of nodes, what was not read. */
export function tellLeftOut(io: Io, { objects, running, options }: PolicyInput, index: PolicyIndex): void {
  const names = objects.flatMap((one) => (one.kind === "NetworkPolicy" && isShadow(one) ? [one.key] : []));
  if (names.length > 0) {
    const some = printable(shortList(names, MOST_NAMED));
    io.err.write(`in shadow and not in force: ${some}; policy explain says what they would do\n`);
  }
  tellOversizes(io, index);
  tellUnknown(io, objects, running);
  const isAnyHost = running.some((pod) => pod.hostNetwork);
  if (isAnyHost && running.some((pod) => !pod.hostNetwork && pod.nodeName === undefined)) {
    const who = options.policePodToOwnNode ? "from a node to its own pods" : "between a pod and its own node";
    io.err.write(
      `not known: on which node some pods run; NetworkPolicies do not stop traffic ${who}, so it passes there even ` +
        "where it is said to be denied\n",
    );
  }
}
