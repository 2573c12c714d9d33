import type { ManifestProblem } from "../../../input/manifests.ts";
import { isReplacedPolicy } from "../../../input/objects/take.ts";
import { OMIT } from "../../../input/objects/unsupported.ts";
import type { LintContext } from "../context.ts";
import type { LintRule, Remark } from "../finding.ts";
import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS } from "../../../../objects/gate/gate.ts";
import { asClusterNetworkPolicies } from "../../../input/admin_policy.ts";
import { textAt } from "../../../input/raw.ts";

/** Matches the gate's message about an exception that is not inside its block. */
const OUTSIDE_EXCEPT = /\.except\[\d+\]: .*expected a smaller range inside/;

/** The end of a message about a kind that is not understood. */
const OMISSION = `; ${OMIT}`;

/** Reports what cannot be read: an object that the API server would refuse, or a file that is not YAML. */
export const invalid: LintRule = {
  id: "invalid",
  severity: "error",
  summary: "The API server would refuse the object, or the file cannot be read.",
  reason:
    "The rest of the files is judged without it. Findings that it may have caused are info until it is corrected.",
  check: (context) =>
    problemsOf(context, (problem) => !isOutsideExcept(problem)).map((problem) => {
      const { message } = problem;
      if (!message.endsWith(OMISSION))
        return remarkOn(problem, "correct it: until then no policy here can be relied on");
      const withoutWay = { ...problem, message: message.slice(0, -OMISSION.length) };
      return remarkOn(withoutWay, "what it closes or opens is not known here: --ignore-unsupported lints the rest");
    }),
};

export const exceptOutsideCidr: LintRule = {
  id: "except-outside-cidr",
  severity: "error",
  summary: "An exception of an ipBlock is not inside its cidr; the API server refuses it.",
  reason: "Correct the exception, or the cidr.",
  check: (context) =>
    problemsOf(context, isOutsideExcept).map((problem) =>
      remarkOn(problem, "omit it: addresses outside of cidr are not allowed anyway"),
    ),
};

/** Reports domain names where only the experimental API takes them: such rules fail closed. */
export const experimental: LintRule = {
  id: "experimental",
  severity: "warning",
  summary: "A ClusterNetworkPolicy has domainNames in a rule that denies or passes, or of the Baseline tier (CNP-07).",
  reason:
    "Domain names count in Accept rules of the Admin tier. Elsewhere an Accept rule accepts nothing, and another denies everyone.",
  check: ({ manifests }) => manifests.remarks.map((problem) => remarkOn(problem, "name the addresses under networks")),
};

function isOutsideExcept({ message }: ManifestProblem): boolean {
  return OUTSIDE_EXCEPT.test(message);
}

/** Returns the problems that no other rule reports. */
function problemsOf(
  { manifests }: LintContext,
  isMeant: (problem: ManifestProblem) => boolean,
): readonly ManifestProblem[] {
  return manifests.problems.filter((problem) => isMeant(problem) && !isReplacedPolicy(problem.source));
}

function remarkOn({ file, line, message, source }: ManifestProblem, fix: string): Remark {
  const [, object = "", rest = message] = /^([A-Z]\w* \S+): (.*)$/s.exec(message) ?? [];
  return { place: { object, file, line, source }, message: rest, fix };
}

export const adminPolicies: LintRule = {
  id: "admin-network-policy",
  severity: "error",
  summary:
    "AdminNetworkPolicy and BaselineAdminNetworkPolicy (v1alpha1) are gone: ClusterNetworkPolicy (v1beta1) is their successor.",
  reason: "The finding has the policy to write instead.",
  check: ({ manifests }) =>
    manifests.problems.flatMap(({ source, file, line }) => {
      if (!isReplacedPolicy(source)) return [];
      const conversion = asClusterNetworkPolicies(source);
      const object = `${textAt(source, "kind") ?? "policy"} ${textAt(source, "metadata", "name") ?? ""}`.trimEnd();
      const found = { place: { object, file, line, source }, message: "is of v1alpha1, which nothing here enforces" };
      if (conversion.type === "refused") {
        const version = `${CLUSTER_POLICIES}/${CLUSTER_POLICY_VERSIONS[0]}`;
        return {
          ...found,
          fix: `write it as ClusterNetworkPolicy of ${version}; it cannot be made of this one: ${conversion.problem}`,
        };
      }
      const isSeveral = conversion.yaml.includes("\n---\n");
      const below = isSeveral
        ? "ClusterNetworkPolicies below; their priorities have to be free"
        : "ClusterNetworkPolicy below";
      return { ...found, fix: `replace it by the ${below}`, replacement: conversion.yaml };
    }),
};
