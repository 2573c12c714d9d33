import { type Configured, decodeConfiguration } from "./configuration/decoding.ts";
import { type DetachInput, detachShape, type NetworkInput } from "./configuration/network_input.ts";
import { networkShapeFor, type PluginInput } from "./delegation/ipam_choice.ts";
import { type Attachment, requestedAttachment } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { IsValid } from "./gc/valid_attachments.ts";
import type { PluginMachine } from "./host.ts";
import type { Shape } from "./json.ts";
import { type CniVersion, supportedVersions } from "./version.ts";

/** A call with its arguments and the types of its configuration decoded; `call` is the call as it came. */
export type DecodedCall = { readonly call: PluginInput } & (
  | { readonly verb: "ADD"; readonly attachment: Attachment; readonly input: NetworkInput }
  | { readonly verb: "CHECK"; readonly attachment: Attachment; readonly input: NetworkInput }
  | { readonly verb: "DEL"; readonly attachment: Attachment; readonly input: DetachInput }
  | {
      readonly verb: "GC";
      readonly input: DetachInput;
      /** undefined if the runtime does not say which attachments are valid: nothing may be removed. */
      readonly isValid: IsValid | undefined;
    }
  | { readonly verb: "STATUS"; readonly input: NetworkInput }
);

/** The decoded call of one verb. */
export type CallOf<V extends DecodedCall["verb"]> = Extract<DecodedCall, { readonly verb: V }>;

/** The verbs that were added to the specification later, and the first version that has each. */
const FIRST_VERSIONS: Partial<Record<string, CniVersion>> = { CHECK: "0.4.0", GC: "1.1.0", STATUS: "1.1.0" };

/**
 * Decodes a call of any verb but VERSION.
 *
 * @param verb CNI_COMMAND
 * @throws CniError 4 for missing variables before anything else (P4), then 1 for a version of the configuration that
 *   does not have the verb (P8), and as {@link decodeConfiguration}
 */
export function decodeCall(node: PluginMachine, verb: string, call: PluginInput): DecodedCall {
  const { self, environment, stdin } = call;
  switch (verb) {
    case "ADD":
    case "CHECK": {
      const attachment = requestedAttachment(environment, verb);
      return { call, verb, attachment, input: decodeFor(verb, stdin, networkShapeFor(self)) };
    }
    case "DEL": {
      const attachment = requestedAttachment(environment, verb);
      return { call, verb, attachment, input: decodeFor(verb, stdin, detachShape) };
    }
    case "GC": {
      const { VALID_ATTACHMENTS, validAttachments, validAttachmentsShape } = node.rare();
      const input = decodeFor(verb, stdin, { ...detachShape, ...validAttachmentsShape });
      const isValid = validAttachments(input[VALID_ATTACHMENTS]);
      if (isValid === undefined)
        call.warn?.(`GC of network ${input.name} without ${VALID_ATTACHMENTS}: nothing is removed`);
      return { call, verb, input, isValid };
    }
    case "STATUS":
      return { call, verb, input: decodeFor(verb, stdin, networkShapeFor(self)) };
    default:
      throw new CniError(
        CniErrorCode.INVALID_ENVIRONMENT,
        `unknown CNI_COMMAND: ${verb.slice(0, 64)}; expected ADD, CHECK, DEL, GC, STATUS or VERSION`,
      );
  }
}

/** Decodes a verb's configuration. @throws CniError 1 if its version lacks the verb (P8); as {@link decodeConfiguration} */
function decodeFor<const S extends Shape>(
  verb: DecodedCall["verb"],
  stdin: string,
  shape: S | ((value: object) => S),
): Configured<S> {
  const first = FIRST_VERSIONS[verb] ?? "0.1.0";
  return decodeConfiguration(stdin, shape, (version) => {
    if (supportedVersions.indexOf(version) >= supportedVersions.indexOf(first)) return;
    throw new CniError(
      CniErrorCode.INCOMPATIBLE_VERSION,
      `config version does not allow ${verb}`,
      `config is "${version}"; expected ${first} or later`,
    );
  });
}
