import * as v from "valibot";
import { VALIDATIONS } from "./reading.ts";

/** The schema of the options that `withReading` adds. */
export const readingEntries = {
  exclude: v.optional(v.array(v.string()), []),
  validate: v.picklist(VALIDATIONS),
  ignoreUnsupported: v.boolean(),
  quiet: v.boolean(),
};

/** The schema of the options that `withKubeconfig` adds. */
const kubeconfigEntries = { kubeconfig: v.optional(v.string()), context: v.optional(v.string()) };

/** The schema of the options that `withKubeconfig` and `withDaemons` add. */
export const daemonEntries = { ...kubeconfigEntries, drawbridgeNamespace: v.string() };

/** The schema of the options that `withAccess` adds. */
export const accessEntries = {
  ...kubeconfigEntries,
  namespace: v.optional(v.string()),
  /** Milliseconds; Infinity for no limit. */
  requestTimeout: v.number(),
};

/** The schema of the option that `withConfiguration` adds. */
export const configurationEntries = { config: v.optional(v.string()) };

/** The schema of the options that `withInput` adds. */
export const inputEntries = {
  filename: v.optional(v.array(v.string()), []),
  recursive: v.boolean(),
  cluster: v.boolean(),
  ...readingEntries,
  ...accessEntries,
};
