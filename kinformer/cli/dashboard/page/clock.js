// The clock: ages that grow by themselves, counted by the server's time.

import { age, element } from "./words.js";

let offset = 0;  // seconds that the server's clock is ahead

export function now() {
  return Date.now() / 1000 + offset;
}

export function follow(serverTime) {
  offset = serverTime - Date.now() / 1000;
}

// An element with the time since a moment (seconds since 1970, or text of the API); it is kept up to date.
export function since(moment, { before = "", after = "" } = {}) {
  const at = typeof moment === "string" ? Date.parse(moment) / 1000 : moment;
  const made = element("time", { class: "since" });
  if (!Number.isFinite(at)) return made;
  made.dateTime = made.title = new Date(at * 1000).toISOString();
  Object.assign(made, { at, before, after });
  tick(made);
  return made;
}

function tick(made) {
  const words = `${made.before}${age(now() - made.at)}${made.after}`;
  if (made.textContent !== words) made.textContent = words;
}

setInterval(() => {
  if (!document.hidden) for (const made of document.querySelectorAll("time.since")) if (made.at !== undefined) tick(made);
}, 1000);
