"use strict";
// A click on a heading sorts its table; a second one turns the order around. Sums stay at the foot.
(() => {
  const raw = (cell) => cell.dataset.v ?? (cell.textContent === "\u2013" ? "" : cell.textContent);
  const sort = (button) => {
    const heading = button.closest("th");
    const table = heading.closest("table");
    const place = heading.cellIndex;
    const isNumber = (text) => text !== "" && !Number.isNaN(Number(text.replaceAll(",", "")));
    const rows = [...table.tBodies[0].rows].map((row) => [raw(row.cells[place]), row]);
    const filled = rows.filter(([text]) => text !== "");
    const numeric = filled.every(([text]) => isNumber(text));
    const before = heading.getAttribute("aria-sort");
    // Numbers begin with the largest, names with the first.
    const ascending = before ? before === "descending" : !numeric;
    const compare = numeric
      ? (a, b) => Number(a.replaceAll(",", "")) - Number(b.replaceAll(",", ""))
      : (a, b) => a.localeCompare(b, "en", { numeric: true });
    filled.sort(([a], [b]) => (ascending ? compare(a, b) : compare(b, a)));
    // What has no value stays last.
    const sorted = [...filled, ...rows.filter(([text]) => text === "")];
    table.tBodies[0].append(...sorted.map(([, row]) => row));
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  };
  document.addEventListener("click", (click) => {
    const button = click.target.closest("th button");
    if (button) sort(button);
  });
  const closed = [];
  window.addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details:not([open])")) {
      each.open = true;
      closed.push(each);
    }
  });
  window.addEventListener("afterprint", () => {
    while (closed.length) closed.pop().open = false;
  });
})();
