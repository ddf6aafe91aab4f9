// The back end of your company. It handles the login of viewers, has the API token, and creates viewer sessions.
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { createUserGroupServiceClient } from "@user-group-service/client";
import express from "express";
import session from "express-session";
import { failed } from "./failed.js";
import { apiToken, audience, backEndPort, dashboardsUrl, origin, serviceUrl } from "./settings.js";

/** Your customers. Each customer is a user group. Viewers must not see the discount. */
const acme = { id: "acme", name: "Acme", properties: { plan: "gold", seats: 3, discount: 0.2 } };
const globex = { id: "globex", name: "Globex", properties: { plan: "free", seats: 1, discount: 0 } };

/** The customer of each person who can log in. */
const viewers = new Map([
  ["ann", acme],
  ["bob", acme],
  ["eve", globex],
]);

/** Create one client per process, because a client keeps connections open. */
const service = createUserGroupServiceClient({ url: serviceUrl, token: apiToken });

const app = express();
app.disable("x-powered-by");

app.use((req, res, next) => {
  // The dashboard host accepts only requests from `origin`. So if a viewer opens the page under another host name, such
  // as localhost, redirect the viewer to `origin`.
  if (req.headers.host !== new URL(origin).host) return res.redirect(origin);
  res.set(
    "Content-Security-Policy",
    `default-src 'self'; img-src 'self' data:; connect-src 'self' ${dashboardsUrl}; frame-ancestors 'none'`,
  );
  next();
});

// Replace this login with the login of your company. This login checks no password. When the process ends, all viewers
// are logged out.
app.use(
  session({
    name: "login",
    secret: randomBytes(32).toString("base64"),
    // If the page uses https, add `secure: true`.
    cookie: { httpOnly: true, sameSite: "lax" },
    resave: false,
    saveUninitialized: false,
  }),
);

app.post("/login", ofThisPage, express.urlencoded(), (req, res, next) => {
  const { viewer } = req.body ?? {};
  if (!viewers.has(viewer)) return res.status(400).send(`viewer must be one of ${[...viewers.keys()].join(", ")}`);
  req.session.regenerate((error) => {
    if (error) return next(error);
    req.session.viewer = viewer;
    res.redirect(303, req.get("Referer") ?? "/");
  });
});

app.post("/logout", ofThisPage, (req, res, next) => {
  req.session.destroy((error) => (error ? next(error) : res.redirect(303, req.get("Referer") ?? "/")));
});

app.post("/session", ofThisPage, async (req, res) => {
  const { viewer } = req.session;
  const customer = viewers.get(viewer);
  if (!customer) return res.status(401).json({ error: "nobody is logged in" });

  // If the group does not exist, this call creates it. The response contains the token of the group. Do not send this
  // token to the page.
  await service.userGroups.getUserGroup({
    userGroupId: customer.id,
    name: customer.name,
    properties: customer.properties,
  });
  const created = await service.viewers.createViewerSession({
    group: { case: "userGroupId", value: customer.id },
    audience,
    origin,
    viewerId: viewer,
    // The session contains these properties of the group, so the page can read them. Do not add secret properties.
    propertyKeys: ["plan", "seats"],
    // The lifetime is short, so that you can watch the renewal. The default is 10 minutes.
    ttl: { seconds: 60n },
  });
  res.set("Cache-Control", "no-store").json({ session: created.session });
});

app.get("/settings", (req, res) => {
  res.set("Cache-Control", "no-store").json({ dashboardsUrl, viewer: req.session.viewer });
});

// Browsers can load this file of the client directly. No bundler is needed.
const sourceOfSessions = fileURLToPath(import.meta.resolve("@user-group-service/client/browser"));
app.get("/viewer-sessions.js", (_req, res) => res.sendFile(sourceOfSessions));

app.use(express.static(`${import.meta.dirname}/page`));
app.use(failed);

app.listen(backEndPort, "127.0.0.1", (error) => {
  if (error) {
    console.error(`the page cannot be served: ${error.message}; set PORT to a free port`);
    process.exit(1);
  }
  console.log(`the page is at ${origin}`);
});

/**
 * Refuses requests that come from other sites. Browsers add the cookie of the viewer even to these requests.
 *
 * @type {express.RequestHandler}
 */
function ofThisPage(req, res, next) {
  const site = req.get("Sec-Fetch-Site");
  // Browsers from before 2023 send only `Origin`.
  if (site === undefined ? req.get("Origin") === origin : site === "same-origin") return next();
  res.status(403).json({ error: "requests from other sites are refused" });
}
