import { writeAttachments } from "../../support/cni/many_attachments.ts";
import { type Contestant, newSide, timeCall } from "../contestant.ts";
import { compared, interleave, measured } from "../row.ts";
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
