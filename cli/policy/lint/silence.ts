import { nameOf } from "../../../objects/gate/gate.ts";
import { nearestNames } from "../../../objects/nearest_names.ts";
import { textAt } from "../../input/raw.ts";
import type { Manifests } from "../../input/manifests.ts";
import { wayObjectName } from "../../input/ways/way_object.ts";
import type { Finding, LintRule, Place } from "./finding.ts";
import type { IgnoreComment } from "./ignore_comments.ts";

/** The annotation with the IDs of findings that are not reported for an object, separated by commas. */
export const IGNORE_ANNOTATION = "drawbridge.dev/lint-ignore";

/** Reports comments that should silence a finding but do not. */
export const ignoreComment: LintRule = {
  id: "ignore-comment",
  severity: "warning",
  summary: "A comment drawbridge:ignore names no rule, gives no reason, or silences nothing.",
  reason:
    "A comment that does not silence anything misleads its readers. It is info where the finding that it was for is gone.",
  check: () => [],
};

/**
 * Returns findings without those that an annotation or a comment silences. A comment applies to its own line or the
 * line after it and, at the first line of an object, to the whole object.
 *
 * @param rules the rules that run: a comment for another rule may be needed
 * @param known the IDs of all rules
 */
export function withoutSilenced(
  findings: readonly Finding[],
  manifests: Manifests,
  comments: readonly IgnoreComment[],
  rules: readonly LintRule[],
  known: readonly string[],
): readonly Finding[] {
  const starts = new Map([
    ...manifests.manifests.map(({ object, file, line }) => [`${file} ${nameOf(object)}`, line] as const),
    ...manifests.wayObjects.map(({ object, file, line }) => [`${file} ${wayObjectName(object)}`, line] as const),
  ]);
  const valid = comments.filter((one) => problemOf(one, known) === undefined);
  const byTarget = Map.groupBy(valid, ({ file, target, id }) => JSON.stringify([file, target, id]));
  const used = new Set<IgnoreComment>();
  const isSilenced = ({ id, place }: Finding): boolean => {
    const { file, line, object } = place;
    const start = starts.get(`${file} ${object}`);
    const found = [line, ...(start === undefined ? [] : [start])].flatMap(
      (target) => byTarget.get(JSON.stringify([file, target, id])) ?? [],
    );
    for (const one of found) used.add(one);
    return found.length > 0 || annotatedOn(place).includes(id);
  };
  const kept = findings.filter((finding) => !isSilenced(finding));
  if (!rules.includes(ignoreComment)) return kept;
  const asked = new Set(rules.map(({ id }) => id));
  const useless = comments.flatMap((comment): readonly Finding[] => {
    const problem = problemOf(comment, known);
    if (problem !== undefined) return [commentFinding(comment, "warning", problem.message, problem.fix)];
    if (used.has(comment) || !asked.has(comment.id)) return [];
    return [
      commentFinding(comment, "info", `there is nothing to silence: no ${comment.id} here`, "delete the comment"),
    ];
  });
  return [...kept, ...useless];
}

function commentFinding(
  { file, line }: IgnoreComment,
  severity: Finding["severity"],
  message: string,
  fix: string,
): Finding {
  return { id: ignoreComment.id, severity, place: { object: "", file, line, source: undefined }, message, fix };
}

function problemOf(
  { id, reason }: IgnoreComment,
  known: readonly string[],
): { readonly message: string; readonly fix: string } | undefined {
  const form = "write # drawbridge:ignore ID reason";
  if (!known.includes(id)) {
    const [nearest] = nearestNames(id, known);
    const message = `${JSON.stringify(id)} is not a rule, so the comment silences nothing`;
    return {
      message,
      fix: nearest === undefined ? `${form}; policy lint --list has the IDs` : `probably ${nearest} is meant`,
    };
  }
  if (reason !== "") return undefined;
  return { message: `the comment gives no reason for ignoring ${id}, so it silences nothing`, fix: form };
}

function annotatedOn({ source }: Place): readonly string[] {
  const annotation = textAt(source, "metadata", "annotations", IGNORE_ANNOTATION) ?? "";
  return annotation.split(",").map((id) => id.trim());
}
