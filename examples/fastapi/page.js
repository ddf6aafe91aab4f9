let held;

/**
 * Returns the current session. Requests a new session after 80 % of the lifetime of the current session, or if
 * `refused` is the current session. Pass a session as `refused` if a server has rejected the session with 401. The
 * function computes the lifetime from the claims `iat` and `exp`, and does not use the current time, because the clock
 * of the browser may be wrong.
 */
async function session(refused) {
  if (!held || held.session === refused || performance.now() >= held.refreshAt) {
    const response = await fetch("/viewer-session", { method: "POST" });
    if (!response.ok) throw new Error(`no session: HTTP ${response.status}`);
    const { session } = await response.json();
    const [, claims] = session.split(".");
    const { iat, exp } = JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/")));
    held = { session, refreshAt: performance.now() + (exp - iat) * 800 };
  }
  return held.session;
}

async function load(path) {
  const get = (text) => fetch(path, { headers: { Authorization: `Bearer ${text}` } });
  const first = await session();
  let response = await get(first);
  if (response.status === 401) response = await get(await session(first));
  if (!response.ok) throw new Error(`no data: HTTP ${response.status} ${await response.text()}`);
  return response.json();
}

const place = document.getElementById("data");
async function show() {
  try {
    const { customer, viewer, plan } = await load("/data");
    place.textContent = `${viewer} of ${customer} has the plan ${plan}`;
  } catch (error) {
    place.textContent = error.message;
  }
}
await show();
setInterval(show, 5000);
