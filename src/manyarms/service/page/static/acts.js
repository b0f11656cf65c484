// The acts of a day: hand out a batch, bring back results, correct, mark as failed, exclude, make a token.
"use strict";
(() => {
  const header = document.getElementById("campaign");
  const base = `/campaigns/${header.dataset.campaign}`;
  const byId = (id) => document.getElementById(id);

  // Send a request that changes something; returns its answer, or throws what the service said.
  async function send(method, address, body, more) {
    const headers = { "X-CSRF-Token": header.dataset.csrf, ...more };
    const isFile = body instanceof Blob;
    if (body !== undefined) headers["Content-Type"] = isFile ? "application/octet-stream" : "application/json";
    const content = body === undefined || isFile ? body : JSON.stringify(body);
    let answer;
    try {
      answer = await fetch(address, { method, headers, body: content });
    } catch {
      throw new Error("The service does not answer.");
    }
    if (answer.status === 401) {
      window.location.assign(`/login?next=${encodeURIComponent(window.location.pathname)}`);
      throw new Error("Log in first.");
    }
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw Object.assign(new Error(said.detail || `Error ${answer.status}`), { kind: said.kind });
    return { status: answer.status, location: answer.headers.get("Location"), said };
  }

  function tell(text, isProblem) {
    const place = byId("told");
    place.textContent = text;
    place.classList.toggle("problem", Boolean(isProblem));
    place.hidden = false;
  }

  async function attempt(act) {
    try {
      await act();
    } catch (problem) {
      tell(problem.message, true);
    }
  }

  function number(text) {
    const value = Number(text.trim().replace(",", "."));
    if (!text.trim() || !Number.isFinite(value)) throw new Error(`${JSON.stringify(text)} is not a number.`);
    return value;
  }

  // ------------------------------------------------------------------ a dialog

  // Ask for a value, a reason, or both; `act` is called with them, and its error is shown in the dialog.
  function ask({ title, text, button, wantsValue, wantsFailed, act }) {
    const dialog = byId("dialog");
    byId("dialog-title").textContent = title;
    byId("dialog-text").textContent = text;
    byId("dialog-do").textContent = button;
    byId("dialog-problem").textContent = "";
    byId("dialog-note").value = byId("dialog-value").value = "";
    byId("dialog-failed").checked = false;
    byId("dialog-value-row").hidden = !wantsValue;
    byId("dialog-failed-row").hidden = !wantsFailed;
    byId("dialog-form").onsubmit = async (event) => {
      if (event.submitter && event.submitter.value === "cancel") return;
      event.preventDefault();
      try {
        await act({
          value: byId("dialog-value").value,
          failed: byId("dialog-failed").checked,
          note: byId("dialog-note").value.trim() || null,
        });
        dialog.close();
      } catch (problem) {
        byId("dialog-problem").textContent = problem.message;
      }
    };
    dialog.showModal();
  }

  // ------------------------------------------------------------------ buttons of tables

  const ticketAddress = (ticket) => `${base}/tickets/${encodeURIComponent(ticket)}/result`;
  const acts = {
    failed({ ticket, id }) {
      ask({
        title: "Mark as failed", text: `Ticket ${ticket}, candidate ${id}`, button: "Mark as failed",
        async act({ note }) {
          await send("PUT", ticketAddress(ticket), { failed: true, note });
          tell(`Ticket ${ticket} is recorded as failed.`);
        },
      });
    },
    forget({ ticket }) {
      attempt(async () => {
        await send("POST", `${base}/tickets/forget`, { tickets: [ticket] });
        tell(`Ticket ${ticket} is cancelled; its candidate may be chosen again.`);
      });
    },
    correct({ ticket, id, was }) {
      ask({
        title: "Correct a result", text: `Candidate ${id}, recorded as ${was}`, button: "Correct",
        wantsValue: true, wantsFailed: true,
        async act({ value, failed, note }) {
          const row = ticket ? { ticket } : { id, was: was === "failed" ? was : Number(was) };
          const right = failed ? { failed: true } : { value: number(value) };
          const { said } = await send("POST", `${base}/corrections`, { rows: [{ ...row, ...right }], why: note });
          tell(said.changes.length ? `The result of ${id} is corrected.` : "The value was right already.");
        },
      });
    },
    exclude({ id }) {
      ask({
        title: "Exclude a candidate", text: `${id} is never asked for again; its results stay.`, button: "Exclude",
        act: ({ note }) => exclude(id, note),
      });
    },
    readmit({ id }) {
      attempt(async () => {
        await send("POST", `${base}/readmissions`, { ids: [id] });
        tell(`${id} may be chosen again.`);
      });
    },
  };

  async function exclude(id, note) {
    await send("POST", `${base}/exclusions`, { ids: [id], note });
    tell(`${id} is excluded.`);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-act]");
    if (button && acts[button.dataset.act]) acts[button.dataset.act](button.dataset);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-act=tell]");
    if (!form) return;
    event.preventDefault();
    attempt(async () => {
      const value = number(form.elements.value.value);
      await send("PUT", ticketAddress(form.dataset.ticket), { value });
      form.elements.value.blur();
      tell(`Ticket ${form.dataset.ticket}: ${value} is recorded.`);
    });
  });

  // ------------------------------------------------------------------ forms of sections

  function onSubmit(id, act) {
    const form = byId(id);
    if (!form) return;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      button.disabled = true;
      attempt(() => act(form.elements, form)).finally(() => (button.disabled = false));
    });
  }

  onSubmit("ask", async ({ n, worker }) => {
    const body = { n: Number(n.value), worker: worker.value.trim() || null };
    const key = { "Idempotency-Key": crypto.randomUUID ? crypto.randomUUID() : String(Math.random()) };
    tell("The next batch is being chosen…");
    let answer = await send("POST", `${base}/asks`, body, key);
    while (answer.status === 202) answer = await send("GET", answer.location);
    const [first] = answer.said.tickets;
    tell(`Batch ${first.batch} with ${answer.said.tickets.length} candidates is handed out; download it below.`);
  });

  onSubmit("exclude", async ({ id, note }, form) => {
    await exclude(id.value, note.value.trim() || null);
    form.reset();
  });

  onSubmit("token", async (elements, form) => {
    const scopes = [...form.querySelectorAll("[name=scope]:checked")].map((box) => box.value);
    const campaign = elements.everywhere.checked ? "*" : decodeURIComponent(header.dataset.campaign);
    const { said } = await send("POST", "/tokens", { name: elements.name.value, campaign, scopes });
    const place = byId("token-answer");
    const text = document.createElement("code");
    text.textContent = said.token;
    const more = said.was_open ? " From now on everyone needs a token; this page will ask for it." : "";
    place.replaceChildren("Copy it now, it is not shown again: ", text, more);
    form.reset();
  });

  // ------------------------------------------------------------------ a results file

  const summary = ({ new: fresh, failed, known, unmeasured, corrected, removed }) =>
    `${fresh} new results (${failed} failed), ${known} were recorded already, ${unmeasured} rows have no value` +
    (corrected || removed ? `; ${corrected} corrected, ${removed} removed.` : ".");

  async function upload(file, mode) {
    const answer = byId("drop-answer");
    const choice = byId("drop-choice");
    choice.hidden = true;
    answer.classList.remove("problem");
    answer.textContent = `Reading ${file.name}…`;
    try {
      const address = `${base}/results/file?name=${encodeURIComponent(file.name)}&mode=${mode}`;
      answer.textContent = summary((await send("POST", address, file)).said);
      byId("file").value = "";
    } catch (problem) {
      answer.classList.add("problem");
      answer.textContent = problem.message;
      if (problem.kind !== "AmbiguousResultsError") return;
      const meanings = { correct: "They are corrections", replicates: "They are further measurements" };
      choice.replaceChildren(
        ...Object.entries(meanings).map(([name, meaning]) => {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = meaning;
          button.addEventListener("click", () => upload(file, name));
          return button;
        }),
      );
      choice.hidden = false;
    }
  }

  const drop = byId("drop");
  if (drop) {
    byId("file").addEventListener("change", (event) => event.target.files[0] && upload(event.target.files[0], "ask"));
    drop.addEventListener("submit", (event) => event.preventDefault());
    for (const kind of ["dragover", "dragleave", "drop"])
      drop.addEventListener(kind, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", kind === "dragover");
      });
    drop.addEventListener("drop", (event) => event.dataTransfer.files[0] && upload(event.dataTransfer.files[0], "ask"));
  }
})();
