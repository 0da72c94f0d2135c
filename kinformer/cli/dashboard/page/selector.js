// A label selector as kubectl takes it, as a function of labels.

const NAME = "[\\w./-]+";
const PART = new RegExp(`^\\s*(?:(!)\\s*(${NAME})|(${NAME})\\s+(in|notin)\\s*\\(([^()]*)\\)|(${NAME})\\s*(==|=|!=)\\s*([\\w.-]*)|(${NAME}))\\s*(,|$)`);

// Throws an Error that says what is wrong, and with which part.
export function parseSelector(text) {
  const tests = [];
  let rest = text, open = true;
  while (rest.trim() || (open && tests.length)) {
    const found = PART.exec(rest);
    if (!found) throw new Error(complaint(rest.trim()));
    const [whole, , absent, set, verb, list, equal, sign, value, present, comma] = found;
    if (absent) tests.push((labels) => !Object.hasOwn(labels, absent));
    else if (set) {
      const values = new Set(list.split(",").map((one) => one.trim()));
      tests.push(verb === "in" ? (labels) => Object.hasOwn(labels, set) && values.has(labels[set]) : (labels) => !values.has(labels[set]));
    } else if (equal) {
      tests.push(sign === "!=" ? (labels) => labels[equal] !== value : (labels) => labels[equal] === value);
    } else tests.push((labels) => Object.hasOwn(labels, present));
    rest = rest.slice(whole.length);
    open = Boolean(comma);
  }
  return (labels) => tests.every((test) => test(labels ?? {}));
}

function complaint(rest) {
  if (!rest) return "A comma is last: another condition has to follow it, as in app=web,tier=cache.";
  const set = /^([\w./-]+)\s+(in|notin)\b/.exec(rest);
  if (set) return `“${rest}”: ${set[2]} takes a list in parentheses, as in ${set[1]} ${set[2]} (a, b).`;
  const word = /^([\w./-]+)\s+([\w./-]+)/.exec(rest);
  if (word) return `“${rest}”: expected =, !=, in or notin after ${word[1]}, as in ${word[1]}=${word[2]}.`;
  return `“${rest}” is not a condition: expected app=web, app!=web, app in (web, api), app or !app.`;
}
