import type { Service } from "../../objects/model.ts";
import type { CompiledService } from "./elements/compile_service.ts";

/** Is notified of compiled Services. It must not throw. */
export interface ServiceObserver {
  /** A Service was compiled, for the first time or again, and its claims are about to be written. */
  compiled(service: Service, compiled: CompiledService): void;
  /** The Service is gone. */
  removed(key: string): void;
}
