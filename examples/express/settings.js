const { API_TOKEN, UGS_URL = "http://127.0.0.1:8080", UGS_ENVIRONMENT = "dev/Customer" } = process.env;
const { PORT = "3000", DASHBOARDS_PORT = "3001" } = process.env;

if (!API_TOKEN) {
  console.error("API_TOKEN is not set: give it the token that the User Group Service printed when it started");
  process.exit(1);
}

export const apiToken = API_TOKEN;
export const serviceUrl = UGS_URL;
export const backEndPort = Number(PORT);
export const dashboardsPort = Number(DASHBOARDS_PORT);

/** Where the page is. */
export const origin = `http://127.0.0.1:${backEndPort}`;

/** Where its dashboard is: another origin, as that of another company would be. */
export const dashboardsUrl = `http://127.0.0.1:${dashboardsPort}`;

/** Whom viewer sessions are made for. The dashboards take no others. */
export const audience = "dashboards";

/** Whose sessions the dashboards take that verify alone: the environment of the API token, at the service's PUBLIC_URL. */
export const issuer = `${UGS_URL}/e/${UGS_ENVIRONMENT}`;
