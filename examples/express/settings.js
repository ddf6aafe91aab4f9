const { API_TOKEN, UGS_URL = "http://127.0.0.1:8080", UGS_ENVIRONMENT = "dev/Customer" } = process.env;
const { PORT = "3000", DASHBOARDS_PORT = "3001" } = process.env;

if (!API_TOKEN) {
  console.error("API_TOKEN is not set: set it to an API token that the User Group Service prints at its start");
  process.exit(1);
}

export const apiToken = API_TOKEN;
export const serviceUrl = UGS_URL;
export const backEndPort = Number(PORT);
export const dashboardsPort = Number(DASHBOARDS_PORT);

/** The origin of the page. */
export const origin = `http://127.0.0.1:${backEndPort}`;

/** The origin of the dashboards. In production, another company can host the dashboards. */
export const dashboardsUrl = `http://127.0.0.1:${dashboardsPort}`;

/** The audience of viewer sessions. The dashboards accept only sessions with this audience. */
export const audience = "dashboards";

/**
 * The issuer of viewer sessions. It consists of PUBLIC_URL of the service, `/e/`, and the environment of the API token.
 */
export const issuer = `${UGS_URL}/e/${UGS_ENVIRONMENT}`;
