import { styleText } from "node:util";
import type { Output } from "./io.ts";

/** Functions that set words off for a person; without colour they return the text unchanged. */
export interface Style {
  /** Allowed, clean. */
  readonly good: (text: string) => string;
  /** Denied, a fault. */
  readonly bad: (text: string) => string;
  /** A name or a head. */
  readonly strong: (text: string) => string;
  /** Secondary information. */
  readonly faint: (text: string) => string;
}

/** Returns the style for an output. */
export function styleOf({ hasColour }: Pick<Output, "hasColour">): Style {
  const set = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    hasColour && text !== "" ? styleText(format, text, { validateStream: false }) : text;
  return { good: set("green"), bad: set("red"), strong: set("bold"), faint: set("dim") };
}
