// Starts both in one process. They do not depend on each other.
import "./back-end.js";
import "./dashboards.js";
