import { statSync } from "node:fs";
import path from "node:path";
import { writeAttachments } from "../../support/cni/many_attachments.ts";
import { type Contestant, newSide, resultOfAdd, timeCall } from "../contestant.ts";
import { compared, interleave, measured } from "../row.ts";
import { steadySide } from "./attach.ts";
import { PEER, type Scenario } from "./context.ts";

const ATTACHMENTS = 5000;
/** A number of measurements of GC that is enough for an interval. */
const ENOUGH = 10;

/** Measures VERSION, which only starts and prints, and so shows the cost of a start. */
export const version: Scenario = (context) => {
  const measure = (contestant: Contestant): (() => number) => {
    const side = newSide(context, contestant, "version");
    timeCall(side, "VERSION");
    return () => timeCall(side, "VERSION").milliseconds;
  };
  const pairs = interleave(context.pairs, measure(context.ours), measure(context.peer));
  return [compared("VERSION", "ms", PEER, pairs, { ratioAtMost: 1.2 })];
};

/** Measures the verbs that only look: CHECK of a pod, which CRI-O makes after each ADD, and STATUS, which is polled. */
export const checks: Scenario = (context) =>
  (["CHECK", "STATUS"] as const).map((command) => {
    const measure = (contestant: Contestant): (() => number) => {
      const side = steadySide(context, contestant, command.toLowerCase());
      const pod = context.lab.pod(`${command.toLowerCase()}-${contestant.name}`);
      const further = command === "CHECK" ? { prevResult: resultOfAdd(side, pod) } : {};
      return () => timeCall(side, command, command === "CHECK" ? pod : undefined, further).milliseconds;
    };
    return compared(command, "ms", PEER, interleave(context.pairs, measure(context.ours), measure(context.peer)));
  });

/** Measures GC of many attachments, all of which are in its list. Go's plugins do nothing for GC. */
export const garbage: Scenario = (context) => {
  const side = newSide(context, context.ours, "gc");
  const pod = context.lab.pod("gc");
  timeCall(side, "ADD", pod);
  const places = { records: `${side.directory}/attachments/drawbridge`, store: `${side.node.dataDir}/drawbridge` };
  const ids = [pod.containerId, ...writeAttachments(places, ATTACHMENTS)];
  const further = { "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })) };
  const times = Array.from({ length: Math.min(context.pairs, ENOUGH) }, (_, round) => {
    context.progress(`GC ${round + 1}`);
    return timeCall(side, "GC", undefined, further).milliseconds;
  });
  return [measured(`GC with ${ATTACHMENTS} attachments`, "ms", times)];
};

/** Measures the size of the files that are copied to every node. */
export const size: Scenario = ({ ours, peer }) => {
  const megabytes = (...files: readonly string[]): number =>
    files.reduce((sum, file) => sum + statSync(file).size / 1e6, 0);
  const hostLocal = path.join(path.dirname(peer.executable), "host-local");
  const pair = { ours: megabytes(ours.executable), peer: megabytes(peer.executable, hostLocal) };
  const remark = "one file, which is drawbridge, drawbridge-ipam and loopback; bridge and host-local";
  return [{ ...compared("size of the executables", "MB", PEER, [pair], { most: 4 }), remark }];
};
