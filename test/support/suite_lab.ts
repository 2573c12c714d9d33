import type Mocha from "mocha";
import { createLab, type Lab } from "../lab/lab.ts";
import { requireKernel } from "./privilege.ts";

/**
 * Makes the lab of the suite whose `before` hook calls this: `lab = suiteLab(this, "x")`. The lab ends after the suite's
 * `after` hooks; the suite is skipped where {@link requireKernel} skips it.
 *
 * @param name as {@link createLab} wants it
 */
export function suiteLab(context: Mocha.Context, name: string): Lab {
  requireKernel(context);
  const lab = createLab(name);
  context.runnable().parent?.afterAll(() => lab.destroy());
  return lab;
}
