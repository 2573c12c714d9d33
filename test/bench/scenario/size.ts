import { statSync } from "node:fs";
import path from "node:path";
import { compared, type Row } from "../row.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/** Measures the size of the files that are copied to every node. */
export const size: Scenario = ({ ours, peer }: Context): readonly Row[] => {
  const megabytes = (...files: readonly string[]): number =>
    files.reduce((sum, file) => sum + statSync(file).size / 1e6, 0);
  const hostLocal = path.join(path.dirname(peer.executable), "host-local");
  const pair = { ours: megabytes(ours.executable), peer: megabytes(peer.executable, hostLocal) };
  const remark = "one file, which is drawbridge, drawbridge-ipam and loopback; bridge and host-local";
  return [{ ...compared("size of the executables", "MB", PEER, [pair], { most: 4 }), remark }];
};
