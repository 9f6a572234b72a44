"use strict";
// Finds and filters rows. The page is whole without it.
(() => {
  const rows = Array.from(document.querySelectorAll(".row"));
  const find = document.getElementById("find");
  const only = document.getElementById("only");
  const count = document.getElementById("count");
  const texts = rows.map(row => row.querySelector("summary").textContent.toLowerCase());
  const notable = row => row.classList.contains("notable");

  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      const no = (only.checked ? !notable(row) : false) || words.some(word => !texts[i].includes(word));
      row.hidden = no;
      shown += no ? 0 : 1;
    });
    count.textContent = words.length || only.checked ? shown + " of " + rows.length + " shown" : "";
  };

  // go moves to the next notable row in a direction, round the end.
  const go = step => {
    const some = rows.filter(row => notable(row) ? !row.hidden : false);
    if (some.length === 0) {
      count.textContent = "nothing notable";
      return;
    }
    const now = some.indexOf(document.activeElement.closest(".row"));
    const from = now === -1 ? (step === 1 ? -1 : 0) : now;
    const row = some[(from + step + some.length) % some.length];
    row.querySelector("summary").focus();
    row.scrollIntoView({ block: "center" });
  };

  find.addEventListener("input", filter);
  only.addEventListener("change", filter);
  find.form.addEventListener("submit", event => event.preventDefault());
  document.getElementById("next").addEventListener("click", () => go(1));
  document.getElementById("previous").addEventListener("click", () => go(-1));
  document.addEventListener("keydown", event => {
    if (event.target === find || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key === "n") {
      go(1);
    } else if (event.key === "p") {
      go(-1);
    } else if (event.key === "/") {
      event.preventDefault();
      find.focus();
    }
  });
})();
