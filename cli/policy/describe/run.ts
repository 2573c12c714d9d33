import { DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import * as v from "valibot";
import type { Pod } from "../../../objects/model.ts";
import { chosenPods } from "../../cluster/named_pods.ts";
import { endNameOf } from "../../cluster/end_name.ts";
import { groupName } from "../../cluster/group.ts";
import { ExitCode, type Io } from "../../io.ts";
import { foldLine } from "../../output/fold.ts";
import { policiesOf } from "../coverage/coverage.ts";
import { locator, placeText } from "../../input/locate.ts";
import { cellText } from "../matrix/cell.ts";
import { formatList } from "../matrix/list.ts";
import { matrixOf } from "../matrix/matrix.ts";
import { wayInRows } from "../matrix/way_in_end.ts";
import { tellOmitted, withNewPods } from "../question_ends.ts";
import { policyInputEntries, readPolicyInput, tellLeftOut } from "../policy_input.ts";
import { withoutRepeated } from "../matrix/repeated.ts";

const optionsSchema = v.object({ ...policyInputEntries, pods: v.string() });

/** Prints the sentences. @throws DrawbridgeError as loadManifests and chosenPods */
export async function runDescribe(io: Io, options: unknown): Promise<ExitCode> {
  const { pods: text, ...input } = v.parse(optionsSchema, options);
  const read = await readPolicyInput(io, input);
  const waysIn = wayInRows(io, read);
  const name = endNameOf(text, read.namespace);
  const isChosen = chosenPods(read.running, name, { text, option: "policy describe" });
  const { index, young } = withNewPods(read);
  tellOmitted(young, io);
  const locate = locator(read.manifests);
  for (const [workload, pods] of Map.groupBy(read.running.filter(isChosen), (pod) => groupName(pod, "workload"))) {
    for (const direction of DIRECTIONS) {
      const policies = [...new Set(pods.flatMap((pod) => policiesOf(index, pod, direction)))];
      const some = pods.some((pod) => policiesOf(index, pod, direction).length === 0) ? "some pods of " : "";
      const names = policies.map((one) => placeText(locate(one))).join(", ");
      const what = direction === "ingress" ? "who reaches it" : "whom it reaches";
      const sentence =
        policies.length === 0
          ? `No policy selects ${workload} for ${direction}: only the policies of others decide ${what}.`
          : `For ${direction}, ${some}${workload} ${pods.length > 1 ? "are" : "is"} selected by ${names}.`;
      io.out.write(foldLine(sentence, io.out.columns));
      const chosen = (pod: Pod): boolean => pods.some(({ key }) => key === pod.key);
      const scope = direction === "ingress" ? { to: chosen, waysIn } : { from: chosen };
      const matrix = withoutRepeated(matrixOf(index, "workload", { ...scope, newPods: young.names }), young);
      const form = {
        columns: io.out.columns,
        hasDittoMarks: false,
        isAllowedOnly: false,
        isOutsideOnly: false,
      } as const;
      io.out.write(
        formatList(matrix, cellText([]), { ...form, first: direction === "ingress" ? "to" : "from", isQuestion: true }),
      );
    }
  }
  tellLeftOut(io, read, index);
  return ExitCode.YES;
}
