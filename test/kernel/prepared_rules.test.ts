import assert from "node:assert/strict";
import { type Change, tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { nodeTables } from "../../policyd/node/tables/tables.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { NODE_CONFIGURATION } from "../support/guard/guarded_node.ts";
import { requireKernel } from "../support/privilege.ts";
import { SERVICE_RULES } from "../support/services/scenario.ts";

const TABLES: readonly Table[] = nodeTables({ ...NODE_CONFIGURATION, services: SERVICE_RULES });
const CHANGES: readonly Change[] = TABLES.flatMap((table) => tableChanges(table, new Map()));

describe("kernel/nftables/prepared rules", () => {
  let lab: Lab;

  before(function () {
    requireKernel(this);
    lab = createLab("prepared-rules");
  });
  after(() => lab?.destroy());

  const open = (namespace: LabNamespace): NftablesSocket => namespace.inside(() => new NftablesSocket(namespace.calls));

  function loaded(name: string, prepare: (kernel: NftablesSocket) => void): string {
    const namespace = lab.namespace(name);
    const kernel = open(namespace);
    prepare(kernel);
    kernel.commit(CHANGES);
    kernel.close();
    return namespace.ruleset("--stateless");
  }

  it("API-20: a node's tables are the same with all, some or none of their rules prepared, also when loaded again", () => {
    const plain = loaded("plain", () => {});
    assert.match(plain, /chain /);
    const all = (kernel: NftablesSocket): void => {
      for (const table of TABLES) for (const chain of table.chains) kernel.prepare(table, chain);
    };
    assert.equal(loaded("all", all), plain);
    const some = (kernel: NftablesSocket): void => {
      for (const table of TABLES) for (const chain of table.chains.slice(7)) kernel.prepare(table, chain);
    };
    assert.equal(loaded("some", some), plain);
    const twice = (kernel: NftablesSocket): void => {
      all(kernel);
      kernel.commit(CHANGES);
      kernel.commit(TABLES.map((table): Change => ({ kind: "delete table", table })));
    };
    assert.equal(loaded("twice", twice), plain);
  });
});
