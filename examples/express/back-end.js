// The back end of your company: it knows who is logged in, and has the API token. Pages get viewer sessions of it.
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { createUserGroupServiceClient } from "@user-group-service/client";
import express from "express";
import session from "express-session";
import { failed } from "./failed.js";
import { apiToken, audience, backEndPort, dashboardsUrl, origin, serviceUrl } from "./settings.js";

/** Your customers. Each is a user group of the service. Nobody outside is to see the discount. */
const acme = { id: "acme", name: "Acme", properties: { plan: "gold", seats: 3, discount: 0.2 } };
const globex = { id: "globex", name: "Globex", properties: { plan: "free", seats: 1, discount: 0 } };

/** The people who may log in. */
const viewers = new Map([
  ["ann", acme],
  ["bob", acme],
  ["eve", globex],
]);

/** Keep one: it keeps its connections. */
const service = createUserGroupServiceClient({ url: serviceUrl, token: apiToken });

const app = express();
app.disable("x-powered-by");

app.use((req, res, next) => {
  // The page is known to the dashboards by one name alone, so not by localhost.
  if (req.headers.host !== new URL(origin).host) return res.redirect(origin);
  res.set(
    "Content-Security-Policy",
    `default-src 'self'; img-src 'self' data:; connect-src 'self' ${dashboardsUrl}; frame-ancestors 'none'`,
  );
  next();
});

// A stand-in for your own login: it asks for no password, and forgets everybody when it ends.
app.use(
  session({
    name: "login",
    secret: randomBytes(32).toString("base64"),
    // Where the page has https:, with `secure: true` as well.
    cookie: { httpOnly: true, sameSite: "lax" },
    resave: false,
    saveUninitialized: false,
  }),
);

app.post("/login", ofThisPage, express.urlencoded(), (req, res, next) => {
  const { viewer } = req.body ?? {};
  if (!viewers.has(viewer)) return res.status(400).send(`viewer has to be one of ${[...viewers.keys()].join(", ")}`);
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

  // The first time it creates the group. Its answer has the group's token, which stays here.
  await service.userGroups.getUserGroup({
    userGroupId: customer.id,
    name: customer.name,
    properties: customer.properties,
  });
  const made = await service.viewers.createViewerSession({
    group: { case: "userGroupId", value: customer.id },
    audience,
    origin,
    viewerId: viewer,
    // What the session shows, to the page and to dashboards that verify alone.
    propertyKeys: ["plan", "seats"],
    // So brief that you see it being renewed. Ten minutes are usual.
    ttl: { seconds: 60n },
  });
  res.set("Cache-Control", "no-store").json({ session: made.session });
});

// What the page has to know.
app.get("/settings", (req, res) => {
  res.set("Cache-Control", "no-store").json({ dashboardsUrl, viewer: req.session.viewer });
});

// The one file of the client that is for browsers needs no bundler.
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
 * Refuses what other sites have a browser send with the viewer's cookie.
 *
 * @type {express.RequestHandler}
 */
function ofThisPage(req, res, next) {
  const site = req.get("Sec-Fetch-Site");
  // Browsers from before 2023 tell the origin alone.
  if (site === undefined ? req.get("Origin") === origin : site === "same-origin") return next();
  res.status(403).json({ error: "only the page itself may ask for this" });
}
