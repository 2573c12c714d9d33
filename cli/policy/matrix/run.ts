import { PROTOCOLS } from "../../../objects/protocol.ts";
import * as v from "valibot";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { Pod } from "../../../objects/model.ts";
import { endNameOf } from "../../cluster/end_name.ts";
import { type Grouping, GROUPINGS } from "../../cluster/group.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode, type Io } from "../../io.ts";
import { sourcesOf } from "../../input/place.ts";
import { shownBy, shownEntries } from "../../input/shown.ts";
import { policyInputEntries, readPolicyInput, tellLeftOut } from "../policy_input.ts";
import { wayInRows } from "./way_in_end.ts";
import { writeAll } from "../../output/write_all.ts";
import { formatPage } from "../../output/page/page.ts";
import { MATRIX_FORMATS } from "./command.ts";
import { type Asked, type Matrix, matrixOf, type Scope } from "./matrix.ts";
import { cellText } from "./cell.ts";
import { chosenPods, podsNamed } from "../../cluster/named_pods.ts";
import { formatList, type ListForm } from "./list.ts";
import { type NewPods, newPodsFor, tellOmitted } from "../question_ends.ts";
import { matrixPage, MOST_NAMES } from "./page.ts";
import { withoutRepeated } from "./repeated.ts";
import { formatGrid, matrixJson, matrixMarkdown } from "./print.ts";

const optionsSchema = v.object({
  ...policyInputEntries,
  ...shownEntries,
  by: v.picklist(GROUPINGS),
  port: v.optional(v.array(v.object({ protocol: v.picklist(PROTOCOLS), port: v.number() })), []),
  from: v.optional(v.string()),
  to: v.optional(v.string()),
  allowedOnly: v.boolean(),
  output: v.picklist(MATRIX_FORMATS),
});

const NO_NEW_PODS: NewPods = Object.freeze({ objects: [], names: new Map(), labels: new Map(), isComplete: true });

/** Prints the matrix. @throws DrawbridgeError ERR_OBJECT for chosen pods that do not exist, and as loadManifests */
export async function runMatrix(io: Io, options: unknown): Promise<ExitCode> {
  const { by, port: ports, from, to, allowedOnly, output, ...input } = v.parse(optionsSchema, options);
  const read = await readPolicyInput(io, input);
  const { objects, running, namespace } = read;
  const isQuestion = from !== undefined || to !== undefined;
  const young = isQuestion ? newPodsFor(objects) : NO_NEW_PODS;
  const index = buildPolicyIndex(storeOf([...objects, ...young.objects]), read.options);
  const scope = {
    from: chosenEnd(running, { text: from, option: "--from" }, namespace),
    to: domainNameIn(to, running, namespace) ?? chosenEnd(running, { text: to, option: "--to" }, namespace),
  };
  const waysIn = wayInRows(io, read);
  const isShown = shownBy(input);
  const matrixBy = (grouping: Grouping): Matrix =>
    matrixOf(index, grouping, {
      ...scope,
      isShown: (pod) => isShown(pod.namespace, pod.labels),
      newPods: young.names,
      waysIn,
    });
  const matrix = output === "html" ? forPage(io, matrixBy, by) : matrixBy(by);
  const shown = isQuestion ? withoutRepeated(matrix, young) : matrix;
  const asked = { ports, isAllowedOnly: allowedOnly };
  if (output === "html") writeAll(io.out, formatPage(matrixPage(shown, asked, read), sourcesOf(input)));
  else if (output === "table") {
    const first = from === undefined && to !== undefined ? "to" : "from";
    writeTable(io, shown, asked, { isQuestion, first, isPoliced: read.options.policePodToOwnNode });
  } else writeAll(io.out, output === "json" ? matrixJson(shown, asked) : [matrixMarkdown(shown, asked)]);
  tellOmitted(young, io);
  tellLeftOut(io, read, index);
  return ExitCode.YES;
}

/** Returns the matrix for a page; by namespace, which is reported, where a page does not hold it otherwise. */
function forPage({ err }: Io, matrixBy: (by: Grouping) => Matrix, by: Grouping): Matrix {
  const whole = matrixBy(by);
  if (Math.max(whole.sources.length, whole.destinations.length) <= MOST_NAMES) return whole;
  err.write(`more than ${MOST_NAMES} rows or columns: namespaces are shown; --from and --to choose others\n`);
  return matrixBy("namespace");
}

/** Returns the pods, or the kind of ends, that a name stands for. @throws DrawbridgeError ERR_OBJECT as chosenPods */
function chosenEnd(
  pods: readonly Pod[],
  { text, option }: { readonly text: string | undefined; readonly option: string },
  namespace: string,
): Scope["from"] {
  if (text === undefined) return undefined;
  const name = endNameOf(text, namespace);
  if (name.type === "outside") return "outside";
  return name.type === "new pods" ? "new pod" : chosenPods(pods, name, { text, option });
}

/** Returns the domain name that a text is; undefined where it is the name of a pod, as in policy explain. */
function domainNameIn(text: string | undefined, pods: readonly Pod[], namespace: string): Scope["to"] {
  const name = text === undefined ? undefined : endNameOf(text, namespace);
  if (name?.type !== "pod" || name.domain === undefined || podsNamed(pods, name).length > 0) return undefined;
  return { domainName: name.domain };
}

/** Prints for people: a grid where it fits, otherwise a list. */
function writeTable(
  io: Io,
  matrix: Matrix,
  { ports, isAllowedOnly }: Asked,
  {
    isPoliced,
    ...question
  }: Pick<ListForm, "isQuestion" | "first"> & {
    /** Whether NetworkPolicies apply to what pods send to their own node. */
    readonly isPoliced: boolean;
  },
): void {
  if (matrix.groups.length === 0) {
    io.err.write("no pod that runs is among the objects\n");
    return;
  }
  const textOf = cellText(ports);
  const { columns, isTerminal: hasDittoMarks } = io.out;
  const form = { columns, hasDittoMarks, isAllowedOnly, ...question };
  const grid = question.isQuestion ? undefined : formatGrid(matrix, textOf, columns);
  const podsGrid = question.isQuestion ? undefined : (grid ?? formatGrid(withoutOutside(matrix), textOf, columns));
  if (podsGrid !== undefined) io.out.write(podsGrid);
  if (grid === undefined) {
    const list = formatList(matrix, textOf, { ...form, isOutsideOnly: podsGrid !== undefined });
    io.out.write(podsGrid === undefined || list === "" ? list : `\n${list}`);
  }
  const isAnyOmitted = matrix.groups.some(({ pods: [pod, ...more] }) => pod?.hostNetwork === true && more.length === 0);
  if (podsGrid === undefined && isAnyOmitted) {
    const why = isPoliced ? "which have rules of their own; -o json has them" : "which no NetworkPolicy keeps apart";
    io.err.write(`not listed: a pod and the network of its own node, ${why}\n`);
  }
}

function withoutOutside(matrix: Matrix): Matrix {
  const [sources = [], destinations = []] = [matrix.sources, matrix.destinations].map((ends) =>
    ends.filter(({ kind }) => kind !== "outside" && kind !== "way in"),
  );
  return { ...matrix, sources, destinations };
}
