import { styleText } from "node:util";
import type { Output } from "./io.ts";

/** How words are set off for people; without colour they stay as they are. */
export interface Style {
  /** Allowed, clean. */
  readonly good: (text: string) => string;
  /** Denied, a fault. */
  readonly bad: (text: string) => string;
  /** A name or a head. */
  readonly strong: (text: string) => string;
  /** What is read last. */
  readonly faint: (text: string) => string;
}

/** The style of what is written to an output. */
export function styleOf({ hasColour }: Pick<Output, "hasColour">): Style {
  const set = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    hasColour && text !== "" ? styleText(format, text, { validateStream: false }) : text;
  return { good: set("green"), bad: set("red"), strong: set("bold"), faint: set("dim") };
}
