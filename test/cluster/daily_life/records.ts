import * as v from "valibot";

/** A line of the load program's output (test/cluster/programs/load/records.go). Times are milliseconds since 1970. */
const RECORD = v.variant("kind", [
  v.object({
    kind: v.literal("second"),
    time: v.number(),
    attempts: v.optional(v.number(), 0),
    exchanges: v.optional(v.number(), 0),
    moved: v.optional(v.number(), 0),
  }),
  v.object({
    kind: v.picklist(["failed", "late", "lost"]),
    time: v.number(),
    address: v.string(),
    stage: v.string(),
    error: v.optional(v.string(), ""),
    took: v.optional(v.number(), 0),
  }),
]);

/** A record of a load generator: the sums of a second, or the fate of one connection. */
export type LoadRecord = v.InferOutput<typeof RECORD>;

/** A record with the name of the generator that wrote it. */
export type NamedRecord = LoadRecord & { readonly generator: string };

/** A period, in milliseconds since 1970. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The period of a step in a run. */
export interface StepWindow extends Span {
  readonly name: string;
  /** The period in which new connections may fail, since no object in the API said yet that their server had gone. */
  readonly unknown?: Span;
  /** The period in which kept connections may be lost, since their server was ended without a warning. */
  readonly killed?: Span;
  /** Why failures do not count in this step. */
  readonly isExpected?: string;
  /** Why the step could not be carried out. */
  readonly error?: string;
}

/** The counts of one step. */
export interface StepCount {
  readonly window: StepWindow;
  readonly attempts: number;
  readonly exchanges: number;
  /** Kept connections that their server closed in order. */
  readonly moved: number;
  /** Connections whose first packet the kernel had to send again. */
  readonly late: readonly NamedRecord[];
  /** Connections that failed or were lost in a period in which that is allowed. */
  readonly excused: readonly NamedRecord[];
  /** Every other connection that failed or was lost. */
  readonly failures: readonly NamedRecord[];
}

/** Reads the records that a generator has written so far, without an unfinished last line. */
export function readRecords(generator: string, text: string): readonly NamedRecord[] {
  return text
    .slice(0, text.lastIndexOf("\n") + 1)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ ...v.parse(RECORD, JSON.parse(line)), generator }));
}

/** Counts each record in the step in which it began. */
export function countSteps(windows: readonly StepWindow[], records: readonly NamedRecord[]): readonly StepCount[] {
  return windows.map((window) => {
    const inside = records.filter(({ time }) => isIn(window, time));
    const seconds = inside.filter((one) => one.kind === "second");
    const bad = inside.filter(({ kind }) => kind === "failed" || kind === "lost");
    return {
      window,
      attempts: sum(seconds.map(({ attempts }) => attempts)),
      exchanges: sum(seconds.map(({ exchanges }) => exchanges)),
      moved: sum(seconds.map(({ moved }) => moved)),
      late: inside.filter(({ kind }) => kind === "late"),
      excused: bad.filter((one) => isExcused(window, one)),
      failures: bad.filter((one) => !isExcused(window, one)),
    };
  });
}

/** Whether the step was carried out, and every connection met its expectation. */
export function isGood({ window, attempts, failures }: StepCount): boolean {
  if (window.error !== undefined || attempts === 0) return false;
  return window.isExpected !== undefined || failures.length === 0;
}

/** Returns the steps as a table in Markdown. */
export function formatSteps(steps: readonly StepCount[]): string {
  const rows = steps.map((step) => [
    step.window.error === undefined ? step.window.name : `${step.window.name}: not done`,
    ((step.window.to - step.window.from) / 1000).toFixed(0),
    `${step.attempts}`,
    `${ofKind(step.failures, "failed")}${step.window.isExpected === undefined ? "" : ` (${step.window.isExpected})`}`,
    `${ofKind(step.failures, "lost")}`,
    step.excused.length === 0 ? "" : excuse(step),
    `${step.late.length}`,
    `${step.moved}`,
    `${step.exchanges}`,
  ]);
  const head = [
    "step",
    "seconds",
    "new connections",
    "failed",
    "kept connections lost",
    "failed before the API could know",
    "first packet sent again",
    "closed by their server",
    "exchanges",
  ];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

/** Returns a line for each kind of failure of a step: the number, the generator, and the seconds of the step. */
export function formatFailures({ window, failures }: StepCount): readonly string[] {
  const groups = new Map<string, NamedRecord[]>();
  for (const one of failures) {
    if (one.kind === "second") continue;
    const group = `${one.generator} to ${one.address}: ${one.kind}, ${one.stage}, ${one.error}`;
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  return [...groups].map(([group, all]) => {
    const seconds = all.map(({ time }) => (time - window.from) / 1000);
    return `${all.length} × ${group}, from second ${Math.min(...seconds).toFixed(1)} to ${Math.max(...seconds).toFixed(1)}`;
  });
}

function excuse({ window, excused }: StepCount): string {
  const failed = ofKind(excused, "failed");
  const lost = ofKind(excused, "lost");
  const times = excused.map(({ time }) => (time - window.from) / 1000);
  const seconds = `seconds ${Math.min(...times).toFixed(1)} to ${Math.max(...times).toFixed(1)}`;
  return `${failed} failed, ${lost} kept ones lost: ${seconds}`;
}

function isExcused({ unknown, killed }: StepWindow, { kind, time }: NamedRecord): boolean {
  return isIn(kind === "lost" ? killed : unknown, time);
}

function isIn(span: Span | undefined, time: number): boolean {
  return span !== undefined && span.from <= time && time < span.to;
}

function ofKind(records: readonly NamedRecord[], kind: LoadRecord["kind"]): number {
  return records.filter((one) => one.kind === kind).length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
