// The host of dashboards, perhaps another company's. It shows the two ways to check viewer sessions: take the one you need.
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

// A host has an API token of its own, of role `resolve`, which can do nothing else. Who verifies alone has none.
const service = createUserGroupServiceClient({ url: serviceUrl, token: apiToken });

/**
 * Asks the service for each look. It sees at once that a session was ended before its time, and the group as it is now, with
 * all of its properties.
 *
 * @param {string} session
 */
async function ask(session) {
  try {
    const viewer = await service.viewers.resolveViewer({ token: session, audience });
    // The service knows user group tokens too, which no page should have.
    if (!viewer.session) return undefined;
    const { viewerId, origin } = viewer.session;
    return { group: viewer.providedId, viewer: viewerId, origin, properties: viewer.properties };
  } catch (error) {
    if (error instanceof ConnectError && error.code === Code.NotFound) return undefined;
    throw error;
  }
}

/**
 * Verifies alone, by public keys that it gets once in ten minutes. It takes a session until that expires, and sees what the
 * session says.
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
  console.log(`its dashboards are at ${dashboardsUrl}`);
});

/**
 * The dashboard of whoever the session is of, which here shows two of the group's properties.
 *
 * @param {typeof ask | typeof verify} check
 * @returns {express.RequestHandler}
 */
function dashboard(check) {
  return async (req, res) => {
    const [, session] = /^Bearer (\S+)$/i.exec(req.get("Authorization") ?? "") ?? [];
    const found = session === undefined ? undefined : await check(session);
    res.set("Cache-Control", "no-store");
    // A session is for the page that it was made for.
    if (!found || found.origin !== req.get("Origin")) {
      res.status(401).json({ error: "there is no viewer session that can be taken" });
      return;
    }
    const { group, viewer, properties } = found;
    res.json({ group, viewer, properties: { plan: properties?.["plan"], seats: properties?.["seats"] } });
  };
}
