import type { ShimParameters } from "../../../../cni/shim/parameters.ts";

/** The parameters that the tests of the shim share. */
export const parameters: ShimParameters = {
  machine: "x64",
  runDirectory: "/run/drawbridge-plugin",
  pluginName: "drawbridge-plugin",
  serverEnvironment: ["A=1", "B=2"],
};
