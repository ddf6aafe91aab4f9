import { render } from "preact";
import { watchActs } from "./session/session.ts";
import { Shell } from "./shell.tsx";

watchActs();
const page = document.getElementById("console") as HTMLElement;
// Removes the text that the page shows before the script runs.
page.replaceChildren();
render(<Shell />, page);
