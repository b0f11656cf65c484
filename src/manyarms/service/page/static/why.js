// Why a candidate: asks the service for its explanation and shows it. Texts are set as text, never as markup.
"use strict";
(() => {
  const name = document.getElementById("campaign").dataset.campaign;
  const dialog = document.getElementById("why");
  const title = document.getElementById("why-title");
  const place = document.getElementById("why-text");
  let asked = 0;

  function element(tag, text, ...children) {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    made.append(...children);
    return made;
  }

  const isolated = (text) => element("bdi", String(text));
  const figure = (value) => (value === null ? "–" : String(Number(value.toPrecision(4))).replace("-", "−"));
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + String(Number(Math.abs(value).toPrecision(3)));

  function table(label, header, rows) {
    const cell = (tag) => (text, i) => {
      const made = element(tag, "", isolated(text));
      if (i > 0) made.className = "num";
      return made;
    };
    const head = element("thead", "", element("tr", "", ...header.map(cell("th"))));
    const body = element("tbody", "", ...rows.map((row) => element("tr", "", ...row.map(cell("td")))));
    const box = element("div", "", element("table", "", head, body));
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    return box;
  }

  function parts(found) {
    const range = found.lower === null ? "" : `; 90 % of measurements between ${figure(found.lower)} and ${figure(found.upper)}`;
    const shown = [element("p", `Predicted ${figure(found.mean)} ± ${figure(found.std)}${range}.`)];
    if (found.measurements)
      shown.push(element("p", `Measured: average ${figure(found.average)} of ${found.measurements}.`));
    if (found.failures) shown.push(element("p", `Failed ${found.failures === 1 ? "once" : `${found.failures} times`}.`));
    if (found.success !== null)
      shown.push(element("p", `Predicted probability that a trial succeeds: ${found.success.toFixed(2)}.`));
    if (found.reason) shown.push(element("p", `Chosen by: ${found.reason}.`));
    if (found.neighbours.length) {
      const rows = found.neighbours.map((each) => [each.id, each.correlation.toFixed(3), figure(each.average)]);
      shown.push(element("h3", "Nearest measured candidates"));
      shown.push(table("Nearest measured candidates", ["candidate", "correlation", "average"], rows));
    }
    if (found.columns.length) {
      const rows = found.columns.map((each) => [
        each.column, each.value, signed(each.against_pool), each.best_value, signed(each.against_best),
      ]);
      shown.push(element("h3", "What each column contributes"));
      shown.push(table("Columns", ["column", "value", "against the pool", `in ${found.best}`, "against it"], rows));
      const meaning = element(
        "p",
        "Against the pool: the prediction minus its average over the values that the column has in other " +
          "candidates. Against the best: minus the prediction with the value of the best candidate.",
      );
      meaning.className = "soft";
      shown.push(meaning);
    }
    return shown;
  }

  async function show(id) {
    const turn = ++asked;
    title.replaceChildren("Why ", isolated(id));
    place.replaceChildren(element("p", "The model is being asked…"));
    dialog.showModal();
    let shown;
    try {
      const answer = await fetch(`/campaigns/${name}/explanations?id=${encodeURIComponent(id)}`);
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.detail);
      shown = parts(said.explanations[0]);
    } catch (problem) {
      const line = element("p", problem.message);
      line.className = "problem";
      shown = [line];
    }
    if (turn === asked) place.replaceChildren(...shown);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-act=why]");
    if (button) show(button.dataset.id);
  });
})();
