"use strict";
/* What the theme leaves out for those who hear a page, or go through it by keyboard. */
addEventListener("load", () => {
  const each = (which, change) => document.querySelectorAll(which).forEach(change);
  each(".caption[role=heading]", (caption) => caption.setAttribute("aria-level", 2));
  each(".toc-drawer", (list) => list.setAttribute("aria-label", "Contents of this page"));
  each("summary[aria-label]", (summary) => summary.removeAttribute("aria-label"));
  each("dt > dl", (lines) => { // a signature is no list
    lines.outerHTML = lines.outerHTML.replace(/<(\/?)d[dl]>/g, "<$1div>");
  });
  if (!document.querySelector("h1")) // the page of what was searched for
    document.querySelector("article")?.insertAdjacentHTML("afterbegin", "<h1>Search</h1>");
  each("th", (head) => head.textContent.trim() || head.setAttribute("role", "cell"));
  each(".table-wrapper, .cell_output, .formula, pre", (place) => {
    if (place.scrollWidth > place.clientWidth) place.tabIndex = 0; // can be scrolled
  });
});
