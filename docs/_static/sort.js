// A click on a heading sorts its table, and another one turns the order. Numbers go by their value,
// also with a sign or an interval behind them. Tables whose cells span rows or columns stay as is.
for (const table of document.querySelectorAll("article table")) {
  const headings = [...table.querySelectorAll("thead tr:only-child th")], body = table.tBodies[0];
  if (!headings.length || body.rows.length < 3 || table.querySelector("[rowspan], [colspan]")) continue;
  headings.forEach((heading, place) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.style.cssText = "all: unset; cursor: pointer";
    button.title = "Sort by this column";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const turn = heading.ariaSort === "ascending" ? -1 : 1;
      headings.forEach(other => other.ariaSort = null);
      heading.ariaSort = turn === 1 ? "ascending" : "descending";
      const text = row => row.cells[place].textContent.trim();
      const order = (a, b) => parseFloat(a) - parseFloat(b) || a.localeCompare(b);
      body.append(...[...body.rows].sort((a, b) => turn * order(text(a), text(b))));
    });
  });
}
