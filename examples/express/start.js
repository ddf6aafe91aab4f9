// Starts the back end and the dashboard host in one process. The two servers share only the settings and the error
// handler.
import "./back-end.js";
import "./dashboards.js";
