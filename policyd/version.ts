import packageJson from "../package.json" with { type: "json" };

/** The commit and its date, `1a2b3c4d5e6f.20261128`, which `npm run release` puts into the bundle. */
declare const DRAWBRIDGE_BUILD: string | undefined;

/** The release of Drawbridge, followed by its build if `npm run release` has made it (semver.org, "build metadata"). */
export const VERSION: string =
  typeof DRAWBRIDGE_BUILD === "undefined" ? packageJson.version : `${packageJson.version}+${DRAWBRIDGE_BUILD}`;
