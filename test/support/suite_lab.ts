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

const labsOfTests = new WeakMap<Mocha.Suite, Lab>();

/** Makes the lab of one test, whose suite's `beforeEach` hook calls this, as {@link suiteLab} makes that of a suite. */
export function testLab(context: Mocha.Context, name: string): Lab {
  requireKernel(context);
  const lab = createLab(name);
  const suite = context.runnable().parent;
  if (suite === undefined) throw new Error("a hook without a suite");
  if (!labsOfTests.has(suite)) suite.afterEach(() => labsOfTests.get(suite)?.destroy());
  labsOfTests.set(suite, lab);
  return lab;
}
