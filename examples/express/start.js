// Both in one process, for a trial: they know nothing of each other.
import "./back-end.js";
import "./dashboards.js";
