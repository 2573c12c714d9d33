import { type Command, InvalidArgumentError, Option } from "commander";
import * as v from "valibot";
import type { Labels } from "../../objects/model.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import { parseLabelSelector } from "./label_selector.ts";

/** The schema of the options that {@link withShown} adds. */
export const shownEntries = { allNamespaces: v.boolean(), selector: v.optional(v.string()) };

/** Adds kubectl's options that, beside `-n`, say what is shown. */
export function withShown(command: Command): Command {
  const readSelector = (text: string): string => {
    if (parseLabelSelector(text) !== undefined) return text;
    throw new InvalidArgumentError("expected labels such as app=web,tier in (a,b).");
  };
  return command
    .option("-A, --all-namespaces", "show all namespaces, whatever -n says", false)
    .addOption(new Option("-l, --selector <labels>", "show only what has these labels").argParser(readSelector));
}

/** Returns whether something in a namespace is shown. */
export type Shown = (namespace: string | undefined, labels: Labels) => boolean;

/** Returns the test for what the options `-n`, `-A` and `-l` show. Something without a namespace is in each of them. */
export function shownBy(options: {
  readonly namespace?: string | undefined;
  readonly allNamespaces: boolean;
  readonly selector?: string | undefined;
}): Shown {
  const labels = options.selector === undefined ? undefined : parseLabelSelector(options.selector);
  const only = options.allNamespaces ? undefined : options.namespace;
  return (namespace, own) =>
    (only === undefined || (namespace ?? only) === only) && (labels === undefined || selects(labels, own));
}
