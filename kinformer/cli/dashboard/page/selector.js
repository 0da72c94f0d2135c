// A label selector as kubectl takes it. The server applies it; a mistake in it is said at once.

const NAME = "[\\w./-]+";
const PART = new RegExp(`^\\s*(?:(!)\\s*(${NAME})|(${NAME})\\s+(in|notin)\\s*\\(([^()]*)\\)|(${NAME})\\s*(==|=|!=)\\s*([\\w.-]*)|(${NAME}))\\s*(,|$)`);

// What is wrong with a selector, and with which part; "" if nothing is.
export function complaintOf(text) {
  let rest = text, open = false;
  while (rest.trim() || open) {
    const match = PART.exec(rest);
    if (!match) return complaint(rest.trim());
    rest = rest.slice(match[0].length);
    open = Boolean(match.at(-1));
  }
  return "";
}

function complaint(rest) {
  if (!rest) return "A comma is last: another condition has to follow it, as in app=web,tier=cache.";
  const set = /^([\w./-]+)\s+(in|notin)\b/.exec(rest);
  if (set) return `“${rest}”: ${set[2]} takes a list in parentheses, as in ${set[1]} ${set[2]} (a, b).`;
  const word = /^([\w./-]+)\s+([\w./-]+)/.exec(rest);
  if (word) return `“${rest}”: expected =, !=, in or notin after ${word[1]}, as in ${word[1]}=${word[2]}.`;
  return `“${rest}” is not a condition: expected app=web, app!=web, app in (web, api), app or !app.`;
}
