import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { tryUrl } from "../../../../../policyd/configuration/schema.ts";
import {
  type AddressPlaces,
  apiAddress,
  foundText,
  KUBELET_KUBECONFIGS,
} from "../../../../../policyd/sources/api/connection/api_address.ts";
import { ServiceAccount } from "../../../../../policyd/sources/api/connection/service_account.ts";

const KUBELET = "/etc/kubernetes/kubelet.conf";
const KUBELET_TEXT = `
apiVersion: v1
kind: Config
clusters:
- {name: other, cluster: {server: "https://198.51.100.1:6443"}}
- {name: kubernetes, cluster: {certificate-authority-data: c2VjcmV0, server: "https://192.0.2.9:6443"}}
contexts:
- {name: here, context: {cluster: kubernetes, user: default-auth}}
current-context: here
users: [{name: default-auth, user: {client-key-data: c2VjcmV0}}]
`;

const places = (given: Partial<AddressPlaces>, text?: string): AddressPlaces => ({
  apiServer: undefined,
  kubeletKubeconfig: KUBELET,
  readText: (path) => (path === KUBELET ? text : undefined),
  environment: {},
  ...given,
});

const ENVIRONMENT = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };

function refusalOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_CONFIGURATION", String(error));
    return error.message;
  }
  return assert.fail("nothing was refused");
}

describe("policyd/sources/api/api_address", () => {
  it("SVC-25: the API server's address comes from the configuration, then the kubelet's kubeconfig, then the variable", () => {
    const apiServer = new URL("https://203.0.113.7:6443");
    const environment = ENVIRONMENT;
    assert.equal(apiAddress(places({ apiServer, environment }, KUBELET_TEXT)).url.href, "https://203.0.113.7:6443/");
    assert.equal(apiAddress(places({ environment }, KUBELET_TEXT)).url.href, "https://192.0.2.9:6443/");
    assert.equal(apiAddress(places({ environment })).url.href, "https://10.96.0.1/");
    const ipv6 = { KUBERNETES_SERVICE_HOST: "fd00:96::1", KUBERNETES_SERVICE_PORT: "6443" };
    assert.equal(apiAddress(places({ environment: ipv6 })).url.href, "https://[fd00:96::1]:6443/");
  });

  it("API-21: the kubelet's kubeconfig is found where each distribution has it, and a configured one is the only one used", () => {
    for (const path of KUBELET_KUBECONFIGS) {
      const readText = (asked: string): string | undefined => (asked === path ? KUBELET_TEXT : undefined);
      const found = apiAddress(places({ kubeletKubeconfig: undefined, readText, environment: ENVIRONMENT }));
      assert.deepEqual([found.url.href, found.origin], ["https://192.0.2.9:6443/", { type: "kubelet", path }]);
      const given = apiAddress(places({ kubeletKubeconfig: "/elsewhere", readText, environment: ENVIRONMENT }));
      assert.deepEqual(given.origin, { type: "variable", missing: ["/elsewhere"] }, path);
    }
    const all = apiAddress(places({ kubeletKubeconfig: undefined, readText: () => KUBELET_TEXT }));
    assert.deepEqual(all.origin, { type: "kubelet", path: KUBELET }, "kubeadm's comes first");
  });

  it("API-21: without a kubeconfig the variable is used, and the report names every place and the way out", () => {
    const found = apiAddress(places({ kubeletKubeconfig: undefined, environment: ENVIRONMENT }));
    const text = foundText(found);
    assert.match(
      text,
      /^https:\/\/10\.96\.0\.1, given by KUBERNETES_SERVICE_HOST: .*give apiServer, or mount the kubelet's/,
    );
    for (const path of KUBELET_KUBECONFIGS) assert.ok(text.includes(path), path);
  });

  it("SVC-25: a missing address is an error that names all places and quotes nothing of a file with secrets", () => {
    assert.match(
      refusalOf(() => apiAddress(places({}))),
      /^apiServer: missing, there is no \/etc\/kubernetes\/kubelet\.conf and no KUBERNETES_SERVICE_HOST; .*--api-server/,
    );
    for (const text of ["a: [c2VjcmV0", "{}", "clusters: [{cluster: {server: 'ftp://c2VjcmV0'}}]", "- 1\n- 2"]) {
      const message = refusalOf(() => apiAddress(places({}, text)));
      assert.match(message, /^\/etc\/kubernetes\/kubelet\.conf: .*give apiServer instead$/);
      assert.doesNotMatch(message, /c2VjcmV0/);
    }
  });

  it("SVC-25: an address needs a host, and must have neither a password nor a query", () => {
    for (const text of [
      "192.0.2.1:6443",
      "https://",
      "ftp://a",
      "https://me:pw@a",
      "https://a?x=1",
      "https://a#b",
      "",
    ]) {
      assert.equal(tryUrl(text), undefined, text);
    }
    assert.equal(tryUrl("https://a.example/k8s/clusters/c-1")?.pathname, "/k8s/clusters/c-1");
  });

  it("API-11: a service account's files are read for each request, and its token is sent only over https", () => {
    const files = new Map([
      ["/sa/token", "one\n"],
      ["/sa/ca.crt", "authority"],
    ]);
    const account = new ServiceAccount("/sa", (path) => files.get(path));
    const server = new URL("https://192.0.2.1:6443");
    const first = account.credentials(server);
    assert.deepEqual(first.options.headers, { Authorization: "Bearer one" });
    files.set("/sa/token", "two\n");
    const second = account.credentials(server);
    assert.deepEqual(second.options.headers, { Authorization: "Bearer two" });
    assert.equal(second.options.agent, first.options.agent, "connections are reused");
    files.set("/sa/ca.crt", "another");
    assert.notEqual(account.credentials(server).options.agent, first.options.agent);
    assert.match(
      refusalOf(() => account.credentials(new URL("http://192.0.2.1:8080"))),
      /expected https$/,
    );
    files.delete("/sa/token");
    assert.match(
      refusalOf(() => account.credentials(server)),
      /^\/sa\/token: missing; expected the files of a service/,
    );
  });
});
