import { assertFindings, pod, policy } from "../../../support/cli/lint_case.ts";

const PODS = pod("web") + pod("db");

describe("policy lint of peers in namespaces that were not read", () => {
  it("LINT-10: a peer in all namespaces that selects no pod may select one in files that were not given", () => {
    const inAll = (labels: string): string => `{ namespaceSelector: {}, podSelector: { matchLabels: { ${labels} } } }`;
    const from = (peers: string): string => PODS + policy("p", `podSelector: {}, ingress: [{ from: [${peers}] }]`);
    assertFindings("unknown-namespace", [
      [
        from(inAll("role: scraper")),
        "NetworkPolicy shop/p: no pod among the files is meant (pods with role=scraper in all namespaces) (give the files of other namespaces, too, with -f)",
      ],
      [from(inAll("app: web"))],
      [from(inAll("app: wbe"))],
    ]);
    assertFindings("allows-nothing", [
      [
        from(inAll("app: wbe")),
        "NetworkPolicy shop/p: the rule is for nobody: pods with app=wbe in all namespaces (there is no app=wbe; probably app=web is meant)",
      ],
      [from(inAll("role: scraper"))],
    ]);
  });
});
