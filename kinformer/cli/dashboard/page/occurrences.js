// The Events of an object, newest first.

import { since } from "./clock.js";
import { element } from "./words.js";

export function occurrences({ items, synced, error }) {
  if (!items.length) {
    const words = synced ? "There are no Events of this object." : error ? `The Events cannot be read: ${error}` : "The Events are being loaded.";
    return element("p", { class: "nothing" }, words);
  }
  return element("ol", { class: "lines occurrences" }, ...items.map((occurrence) => element("li", {},
    element("span", { class: `status ${occurrence.type === "Warning" ? "bad" : ""}` }, occurrence.type),
    element("b", {}, occurrence.reason),
    element("span", { class: "quiet" }, since(occurrence.last, { after: " ago" }), occurrence.count > 1 ? ` (${occurrence.count} times, first ` : "",
      occurrence.count > 1 ? since(occurrence.first, { after: " ago)" }) : "", occurrence.source ? ` by ${occurrence.source}` : ""),
    element("p", {}, occurrence.message))));
}
