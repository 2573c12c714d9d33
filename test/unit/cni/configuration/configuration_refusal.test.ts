import { decodeConfiguration } from "../../../../cni/configuration/decoding.ts";
import type { CniArguments } from "../../../../cni/environment.ts";
import { networkShape } from "../../../../cni/configuration/network_input.ts";
import { assertRefusal, configurationOf, networkInput, noArguments } from "../../../support/cni/cni.ts";
import { refusedConfigurations } from "./refused_configurations.ts";

describe("cni/configuration refuses", () => {
  for (const [code, input, ...says] of refusedConfigurations) {
    it(`with code ${code}: ${says.join(" … ").slice(0, 100)}`, () => {
      assertRefusal(() => configurationOf(input), { code, says });
    });
  }

  const badArguments: readonly (readonly [Partial<CniArguments>, ...string[]])[] = [
    [{ ip: "10.244.1.7/x" }, 'CNI_ARGS IP: "10.244.1.7/x" is not a prefix'],
    [{ mac: "0a:58" }, 'CNI_ARGS MAC: "0a:58" is not a unicast MAC address'],
  ];
  for (const [args, ...says] of badArguments) {
    it(`with code 7: ${says.join()}`, () => {
      assertRefusal(() => configurationOf(networkInput(), { ...noArguments, ...args }), { code: 7, says });
    });
  }

  for (const text of ["", " ", "{", "nonsense", '{"name":}', '{"a":1}x', "\u0000", "{'a':1}"]) {
    it(`with code 6: ${JSON.stringify(text)}, which is not JSON (P7)`, () => {
      assertRefusal(() => decodeConfiguration(text, networkShape), {
        code: 6,
        says: ["standard input is not JSON", "expected"],
      });
    });
  }

  for (const text of ["null", "1", '"x"', "[]", "[{}]", "true"]) {
    it(`with code 6: ${text}, which is not an object (P7)`, () => {
      assertRefusal(() => decodeConfiguration(text, networkShape), {
        code: 6,
        says: ["not a JSON object", "expected"],
      });
    });
  }

  it("with code 6: objects and lists nested too deeply, before their depth can harm", () => {
    for (const key of ["policyd", "cniVersion", "prevResult", "other"]) {
      const text = `{"name":"pods","${key}":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
      assertRefusal(() => decodeConfiguration(text, networkShape), { code: 6, says: ["deeper than 64 levels"] });
    }
  });
});
