import { CONFIGURATION_COLUMNS, configurationTable } from "./configuration_table.ts";
import { lintDocument } from "./lint_document.ts";
import { METRIC_COLUMNS, metricsTable } from "./metrics_table.ts";
import { withTable } from "./table.ts";
import { troubleshootingDocument } from "./troubleshooting/document.ts";

/** A document with a part that is generated from the sources. */
export interface Reference {
  readonly path: string;
  /** Returns the document with that part replaced. */
  readonly write: (text: string) => string;
}

export const REFERENCES: readonly Reference[] = [
  { path: "docs/configuration.md", write: (text) => withTable(text, CONFIGURATION_COLUMNS, configurationTable(text)) },
  { path: "docs/lint.md", write: lintDocument },
  { path: "docs/metrics.md", write: (text) => withTable(text, METRIC_COLUMNS, metricsTable()) },
  { path: "docs/troubleshooting.md", write: troubleshootingDocument },
];
