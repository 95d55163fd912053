/** Groups whose arrays are the variables of one data set, as xarray opens them. */

import type { Nodes } from "./nodes.ts";
import type { Listing } from "./server.ts";

/** Return whether an array is in a group whose arrays name their dimensions and agree on their lengths. */
export async function isInDataset(nodes: Nodes, { path, dimension_names }: Listing): Promise<boolean> {
  if (path === "" || !dimension_names) return false;
  const parent = await nodes.listing(path.split("/").slice(0, -1).join("/")).catch(() => null);
  if (parent === null || parent.truncated) return false;
  const lengths = new Map<string, number>();
  return parent.members.every(({ kind, shape, dimension_names: names }) => {
    if (kind !== "array") return true;
    return shape?.every((length, axis) => {
      const name = names?.[axis];
      if (!name || (lengths.get(name) ?? length) !== length) return false;
      lengths.set(name, length);
      return true;
    });
  });
}
