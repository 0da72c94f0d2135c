// Levels: how well objects do, by the server's judgement of their readiness, counted by resource.

import { now } from "./clock.js";
import { element, number } from "./words.js";

export const LEVELS = ["bad", "busy", "good", "over"];
const WORDS = { bad: "failing", busy: "not ready", good: "ready", over: "finished" };
const RANKS = new Map([...LEVELS, ""].map((level, place) => [level, place]));

// The worst first; an object without a state comes last.
export function rank(row) {
  return RANKS.get(row.level) ?? LEVELS.length;
}

// A busy object counts as bad from a time on, which comes with its row.
function levelOf(row) {
  return row.u !== undefined && now() >= row.u ? "bad" : row.h ?? "";
}

export class Levels {
  constructor() {
    this.clear();
  }

  clear() {
    this.tallies = new Map();  // resource -> level -> number of rows
    this.due = new Map();      // "resource key" -> row whose level depends on the time
  }

  // Counts a row in the place of another one; either may be missing.
  change(resource, old, row) {
    if (old) {
      this.add(resource, old.level, -1);
      this.due.delete(`${resource} ${old.k}`);
    }
    if (!row) return;
    row.level = levelOf(row);
    this.add(resource, row.level, 1);
    if (row.u !== undefined) this.due.set(`${resource} ${row.k}`, row);
  }

  add(resource, level, by) {
    let tally = this.tallies.get(resource);
    if (!tally) this.tallies.set(resource, tally = new Map());
    tally.set(level, (tally.get(level) ?? 0) + by);
  }

  count(resource, level) {
    return this.tallies.get(resource)?.get(level) ?? 0;
  }

  // The rows whose level has changed by the time alone.
  changed() {
    return [...this.due.values()].filter((row) => levelOf(row) !== row.level);
  }
}

// The counters of a view. Each is a button that leaves only the rows of its level, or all again.
export class Counters {
  // `levels` are the name, the word and the colour of each.
  constructor(holder, filter, levels = LEVELS.map((level) => [level, WORDS[level], level])) {
    Object.assign(this, { holder, filter });
    this.buttons = new Map(levels.map(([level, word, tone]) => {
      const count = element("b", {}), button = element("button", { type: "button", class: "counter", onclick: () => filter.toggle(level) },
        element("i", { class: `pod ${tone}` }), count, word);
      button.count = count;
      return [level, button];
    }));
    holder.append(...this.buttons.values());
  }

  // `count` returns the number of rows of a level.
  draw(count) {
    for (const [level, button] of this.buttons) {
      const found = count(level), words = number.format(found), pressed = String(this.filter.level === level);
      const hidden = !found && pressed === "false";
      if (button.hidden !== hidden) button.hidden = hidden;
      if (button.count.textContent !== words) button.count.textContent = words;
      if (button.getAttribute("aria-pressed") !== pressed) button.setAttribute("aria-pressed", pressed);
    }
  }
}
