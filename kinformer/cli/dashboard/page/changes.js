// The latest changes of an object, as differences.

import { since } from "./clock.js";
import { element } from "./words.js";

export function changes(list) {
  if (!list.length) return element("p", { class: "nothing" }, "Nothing has changed since this page's server started to follow it.");
  return element("ol", { class: "changes" }, ...list.map((change) => element("li", {},
    element("p", {}, since(change.at, { after: " ago" }),
      element("span", { class: `pill ${{ ADDED: "good", DELETED: "bad" }[change.type] ?? ""}` }, change.type.toLowerCase()),
      element("span", { class: "quiet" }, `version ${change.version}`)),
    ...(change.type === "UPDATED" && !change.differences.length ? [element("p", { class: "quiet" }, "Nothing but the version.")] : []),
    differences(change.differences))));
}

// The places that differ, with what was and what is, as JSON.
export function differences(list) {
  return element("div", {}, ...list.map((difference) => element("div", { class: short(difference) ? "difference short" : "difference" },
    element("p", { class: "path" }, difference.path),
    difference.old === null ? null : element("del", {}, difference.old),
    difference.new === null ? null : element("ins", {}, difference.new))));
}

// A number, a word: they fit beside their path.
function short(difference) {
  return difference.path.length + (difference.old?.length ?? 0) + (difference.new?.length ?? 0) < 58;
}
