import { writeAttachments } from "../../support/cni/many_attachments.ts";
import { newSide, timeCall } from "../contestant.ts";
import { measured, type Row } from "../row.ts";
import type { Context, Scenario } from "./context.ts";

const ATTACHMENTS = 5000;
/** A number of measurements that is enough for an interval. */
const ENOUGH = 10;

/** Measures GC of many attachments, all of which are in its list. Go's plugins do nothing for GC. */
export const garbage: Scenario = (context: Context): readonly Row[] => {
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
