import { type Command, InvalidArgumentError, Option } from "commander";
import * as v from "valibot";
import type { ClusterObject, Pod } from "../../objects/model.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { type Chosen, chosenPods } from "../cluster/named_pods.ts";
import { endNameOf } from "../cluster/end_name.ts";

/** The pods of a controller, as the command line names them. */
export interface GivenController {
  /** The controller's IngressClass or GatewayClass; undefined for all classes. */
  readonly className: string | undefined;
  readonly isChosen: Chosen;
}

/** The schema of the option that {@link withControllers} adds. */
export const controllerEntries = { ingressController: v.optional(v.array(v.string()), []) };

/** Adds the option that names the pods that forward requests for Ingresses and Gateways. */
export function withControllers(command: Command): Command {
  return command.addOption(
    new Option(
      "--ingress-controller <pods>",
      "the pods that serve Ingresses and Gateways: [CLASS=]NS/NAME of a pod or workload, or a namespace; several times for several classes",
    ).argParser(addController),
  );
}

function addController(text: string, before: readonly string[] = []): readonly string[] {
  if (/^(?:[a-z0-9.-]+=)?[a-z0-9-]+(?:\/[a-z0-9*.-]+){0,2}$/.test(text)) return [...before, text];
  throw new InvalidArgumentError("expected NS/NAME of a pod or workload, or CLASS=NS/NAME.");
}

/** Returns the pods among some objects that have not finished. */
export function runningOf(objects: readonly ClusterObject[]): readonly Pod[] {
  return objects.filter((one): one is Pod => one.kind === "Pod" && !isFinished(one));
}

/** Reads the option. @throws DrawbridgeError ERR_OBJECT with the nearest names for pods that do not exist */
export function givenControllers(texts: readonly string[], pods: readonly Pod[]): readonly GivenController[] {
  return texts.map((text) => {
    const [className, name] = text.includes("=") ? text.split("=") : [undefined, text];
    const given = { text: name ?? "", option: "--ingress-controller" };
    return { className, isChosen: chosenPods(pods, endNameOf(given.text), given) };
  });
}
