// The dashboard host. Another company can run this host. This file shows two ways to check a viewer session, `ask` and
// `verify`. Use one of them.
import {
  Code,
  ConnectError,
  createUserGroupServiceClient,
  ViewerSessionError,
  verifyViewerSession,
} from "@user-group-service/client";
import cors from "cors";
import express from "express";
import { failed } from "./failed.js";
import { apiToken, audience, dashboardsPort, dashboardsUrl, issuer, origin, serviceUrl } from "./settings.js";

// In production, use a separate API token of role `resolve`. A host that verifies signatures needs no API token.
const service = createUserGroupServiceClient({ url: serviceUrl, token: apiToken });

/**
 * Checks a session with a call to the service. Rejects revoked sessions, and returns the current group with all
 * properties.
 *
 * @param {string} session
 */
async function ask(session) {
  try {
    const viewer = await service.viewers.resolveViewer({ token: session, audience });
    // The service resolves user group tokens as well as sessions. A page must not have a user group token, so refuse
    // such a token.
    if (!viewer.session) return undefined;
    const { viewerId, origin } = viewer.session;
    return { group: viewer.providedId, viewer: viewerId, origin, properties: viewer.properties };
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
    throw error;
  }
}

/**
 * Checks a session with the public keys of the issuer. The client caches the keys for ten minutes. Accepts a session
 * until it expires, even if it is revoked. Returns the claims of the session.
 *
 * @param {string} session
 */
async function verify(session) {
  try {
    const { userGroupId, viewerId, origin, properties } = await verifyViewerSession(session, { issuer, audience });
    return { group: userGroupId, viewer: viewerId, origin, properties };
  } catch (error) {
    if (!(error instanceof ViewerSessionError)) throw error;
    console.warn(error.message);
    return undefined;
  }
}

const app = express();
app.disable("x-powered-by");
app.use(cors({ origin, allowedHeaders: ["Authorization"], maxAge: 600 }));
app.get("/asks/dashboard", dashboard(ask));
app.get("/verifies/dashboard", dashboard(verify));
app.use(failed);

app.listen(dashboardsPort, "127.0.0.1", (error) => {
  if (error) {
    console.error(`the dashboards cannot be served: ${error.message}; set DASHBOARDS_PORT to a free port`);
    process.exit(1);
  }
  console.log(`the dashboards are at ${dashboardsUrl}`);
});

/**
 * Returns a handler that sends the dashboard of the viewer. The dashboard shows the group, the viewer and two
 * properties of the group.
 *
 * @param {typeof ask | typeof verify} check
 * @returns {express.RequestHandler}
 */
function dashboard(check) {
  return async (req, res) => {
    const [, session] = /^Bearer (\S+)$/i.exec(req.get("Authorization") ?? "") ?? [];
    const found = session === undefined ? undefined : await check(session);
    res.set("Cache-Control", "no-store");
    // Accept a session only if the `Origin` of the request is the origin in the session.
    if (!found || found.origin !== req.get("Origin")) {
      res.status(401).json({ error: "the request has no valid viewer session" });
      return;
    }
    const { group, viewer, properties } = found;
    res.json({ group, viewer, properties: { plan: properties?.["plan"], seats: properties?.["seats"] } });
  };
}
