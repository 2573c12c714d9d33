import { statSync } from "node:fs";
import path from "node:path";
import type { Measured } from "../row.ts";
import type { Context, Scenario } from "./context.ts";

/** Measures the size of the files that are copied to every node. */
export const size: Scenario = {
  name: "size",
  run({ ours, cold, peer }: Context): readonly Measured[] {
    const megabytes = (file: string): number => statSync(file).size / 1e6;
    const hostLocal = path.join(path.dirname(peer.executable), "host-local");
    return [
      {
        title: "size of the executables",
        unit: "MB",
        pairs: [
          {
            ours: megabytes(ours.executable) + megabytes(cold.executable),
            peer: megabytes(peer.executable) + megabytes(hostLocal),
          },
        ],
        goal: undefined,
        remark: `a shim of ${statSync(ours.executable).size} bytes, which is drawbridge, drawbridge-ipam and loopback, and one plugin; bridge and host-local`,
      },
    ];
  },
};
