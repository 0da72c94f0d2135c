// The Events of an object, newest first.

import { since } from "./clock.js";
import { element } from "./words.js";

export function occurrences({ items, synced, error }) {
  if (!items.length) {
    const words = synced ? "There are no Events of this object." : error ? `The Events cannot be read: ${error}` : "The Events are being loaded.";
    return element("p", { class: "nothing" }, words);
  }
  return element("ol", { class: "lines occurrences" }, ...items.map((one) => element("li", {},
    element("span", { class: `status ${one.type === "Warning" ? "bad" : ""}` }, one.type),
    element("b", {}, one.reason),
    element("span", { class: "quiet" }, since(one.last, { after: " ago" }), one.count > 1 ? ` (${one.count} times, first ` : "",
      one.count > 1 ? since(one.first, { after: " ago)" }) : "", one.source ? ` by ${one.source}` : ""),
    element("p", {}, one.message))));
}
