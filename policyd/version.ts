import packageJson from "../package.json" with { type: "json" };

/** The release of Drawbridge. */
export const VERSION: string = packageJson.version;
