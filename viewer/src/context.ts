/** What all parts of the page share. */

import type { Loader } from "./chunks.ts";
import type { Nodes } from "./nodes.ts";
import type { Server } from "./server.ts";
import type { Model } from "./state.ts";

export interface Context {
  readonly server: Server;
  readonly nodes: Nodes;
  readonly model: Model;
  readonly loader: Loader;
  readonly isDark: () => boolean;
}
