import type { Service } from "../cluster/model.ts";
import type { CompiledService } from "./compile/compile_service.ts";

/** Who is told what Services are made of. It must not throw. */
export interface ServiceObserver {
  /** A Service was compiled, for the first time or anew, and what it claims is about to be written. */
  compiled(service: Service, compiled: CompiledService): void;
  /** It is gone. */
  removed(key: string): void;
}
