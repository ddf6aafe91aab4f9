import { ViewerSessionUnavailable, viewerSessionSource } from "/viewer-sessions.js";

const { dashboardsUrl, viewer } = await (await fetch("/settings")).json();
const url = `${dashboardsUrl}/${location.search === "?verifies" ? "verifies" : "asks"}/dashboard`;
const element = (id) => document.getElementById(id);

if (viewer) {
  element("logout").hidden = false;
  const sessions = viewerSessionSource({
    fetch: (init) => fetch("/session", { method: "POST", ...init }),
    onChange: showSession,
  });
  await updateDashboard(sessions);
} else element("login").hidden = false;

/** Shows the dashboard, and updates the dashboard every half second. */
async function updateDashboard(sessions) {
  try {
    const session = await sessions.get();
    let answer = await read(session);
    // The dashboard host rejects the session, for example because it was revoked. Request another session.
    if (answer.status === 401) answer = await read(await sessions.replace(session));
    if (answer.status === 401) show({});
    else if (answer.ok) {
      const { group, viewer, properties } = await answer.json();
      show({ group, viewer, ...properties });
    }
  } catch (error) {
    // If the back end creates no session, show nothing. Any other error can be temporary, so keep the dashboard.
    if (error instanceof ViewerSessionUnavailable) show({});
    if (error.status === 401) return loggedOut(sessions);
  }
  setTimeout(updateDashboard, 500, sessions);
}

/** Shows the login form. Called if the viewer has logged out in another tab, or if the back end has restarted. */
function loggedOut(sessions) {
  sessions.dispose();
  element("login").hidden = false;
  element("logout").hidden = true;
}

function read(session) {
  return fetch(url, { headers: { Authorization: `Bearer ${session}` } });
}

function show(fields) {
  element("dashboard").replaceChildren(
    ...Object.entries(fields).flatMap(([name, value]) => [cell("dt", name), cell("dd", value)]),
  );
}

function cell(kind, text) {
  const created = document.createElement(kind);
  created.textContent = text;
  return created;
}

function showSession({ status, expireTime, error }) {
  const end = expireTime ? `until ${expireTime.toLocaleTimeString()}` : "";
  element("session").textContent = ["viewer session:", status, end, error?.message].filter(Boolean).join(" ");
}
