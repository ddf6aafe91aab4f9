// Starts the back end and the dashboard host in one process. The two do not depend on each other.
import "./back-end.js";
import "./dashboards.js";
