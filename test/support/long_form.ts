import process from "node:process";
import type Mocha from "mocha";
import { skip } from "./privilege.ts";

/** Whether this is `npm run test:full`, in which random tests and kills take their time. */
const IS_FULL = process.env["DRAWBRIDGE_FULL"] === "1";

const used: string[] = [];

/**
 * Returns how many rounds a test makes: a few in `npm test`, many in `npm run test:full`, which lists them at its end.
 *
 * @param what the rounds, in the plural ("kills")
 */
export function roundsFor(what: string, few: number, many: number): number {
  if (!IS_FULL) return few;
  used.push(`${many} ${what} in place of ${few}`);
  return many;
}

/** Whether a test takes its long form, which `npm run test:full` lists at its end. @param what is added ("all cells") */
export function hasLongForm(what: string): boolean {
  if (IS_FULL) used.push(what);
  return IS_FULL;
}

/**
 * Returns the seed of random cases of which a test counts the kinds: DRAWBRIDGE_SEED if it is set, otherwise the same one
 * in each `npm test`, so that enough of each kind always come, and another one in each `npm run test:full`.
 */
export function countedSeed(): number {
  return Number(process.env["DRAWBRIDGE_SEED"] ?? (IS_FULL ? Date.now() % 0x7fff_ffff : 6));
}

/** Skips a test that only `npm run test:full` has. @param why ("making the image takes too long") */
export function requireLongForm(context: Mocha.Context, why: string): void {
  if (!hasLongForm(context.runnable().title)) skip(context, `${why}: \`npm run test:full\` does`);
}

/** Returns the long forms that were used since the last call. */
export function takeLongForms(): readonly string[] {
  return used.splice(0);
}
