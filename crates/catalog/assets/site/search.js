// Search over the catalogue, in the browser alone. SERVERS and CATEGORIES are
// in data.js. Names are put in as text, never as markup.
"use strict";

(() => {
  const MOST = 100;
  const RISKS = { read: "low", other: "low", write: "medium", execute: "high", destructive: "critical", financial: "critical" };
  const form = document.getElementById("search");
  const words = document.getElementById("words");
  const category = document.getElementById("category");
  const found = document.getElementById("found");
  const said = document.getElementById("said");
  const all = document.getElementById("all");
  const plain = SERVERS.map((server) => server[1].toLowerCase());
  let waiting = 0;

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.textContent = text;
    return made;
  };

  const row = (address, text, code, beside) => {
    const item = document.createElement("li");
    const link = element("a", "", text);
    link.href = address;
    item.append(link);
    if (code >= 0) {
      const name = CATEGORIES[code];
      item.append(" ", element("span", "badge " + RISKS[name], name));
    }
    item.append(element("span", "signals", beside));
    return item;
  };

  // How well a text fits: each word must be in it; the fewer other letters the better.
  const closeness = (text, asked) => {
    for (const word of asked) if (!text.includes(word)) return 0;
    return (asked.length && text.startsWith(asked[0]) ? 2 : 1) / (1 + text.length);
  };

  const look = () => {
    const asked = words.value.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
    const wanted = category.value ? CATEGORIES.indexOf(category.value) : -1;
    const hits = [];
    SERVERS.forEach(([slug, name, worst, tools], place) => {
      if (wanted < 0) {
        const close = closeness(plain[place], asked);
        if (close) hits.push([close * 1.5, "servers/" + slug + "/index.html", name, worst, worst < 0 ? "tools not known" : tools.length === 1 ? "1 tool" : tools.length + " tools"]);
      }
      for (const [tool, code, page] of tools) {
        if (wanted >= 0 && code !== wanted) continue;
        const text = tool.toLowerCase();
        const close = closeness(text, asked) || closeness(text + " " + plain[place], asked) / 4;
        if (close) hits.push([close, "servers/" + slug + "/" + (page || tool) + ".html", tool, code, name]);
      }
    });
    hits.sort((one, other) => other[0] - one[0]);
    found.replaceChildren(...hits.slice(0, MOST).map((hit) => row(hit[1], hit[2], hit[3], hit[4])));
    said.textContent = hits.length > MOST ? "The first " + MOST + " of " + hits.length.toLocaleString("en") : hits.length + " found";
  };

  const change = () => {
    const nothing = !words.value.trim() && !category.value;
    all.hidden = !nothing;
    if (nothing) {
      found.replaceChildren();
      said.textContent = "";
    } else {
      look();
    }
    const state = new URLSearchParams();
    if (words.value) state.set("q", words.value);
    if (category.value) state.set("category", category.value);
    history.replaceState(null, "", "#" + state);
  };

  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(change, 80);
  };

  const state = new URLSearchParams(location.hash.slice(1));
  words.value = state.get("q") || "";
  category.value = state.get("category") || "";
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change();
  });
  words.addEventListener("input", soon);
  category.addEventListener("change", change);
  if (words.value || category.value) change();
})();
