// Logging in: a wrong token is explained on the page instead of leading away from it.
"use strict";
document.getElementById("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const problem = document.getElementById("problem");
  problem.textContent = "";
  const answer = await fetch("/login", {
    method: "POST",
    body: new URLSearchParams(new FormData(form)),
    redirect: "manual",
  }).catch(() => null);
  if (answer && answer.type === "opaqueredirect") {
    const next = form.elements.next.value;
    window.location.assign(next.startsWith("/") && !next.startsWith("//") ? next : "/");
    return;
  }
  const said = answer ? await answer.json().catch(() => ({})) : {};
  problem.textContent = said.detail || "The service does not answer.";
});
