// Levels: how well objects do, by the server's judgement of their readiness, and the counters of them.

import { element, number } from "./words.js";

const LEVELS = ["bad", "busy", "good", "over"];
const WORDS = { bad: "failing", busy: "not ready", good: "ready", over: "finished" };

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
      const total = count(level), words = number.format(total), pressed = String(this.filter.level === level);
      const hidden = !total && pressed === "false";
      if (button.hidden !== hidden) button.hidden = hidden;
      if (button.count.textContent !== words) button.count.textContent = words;
      if (button.getAttribute("aria-pressed") !== pressed) button.setAttribute("aria-pressed", pressed);
    }
  }
}
