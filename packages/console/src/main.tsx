import { render } from "preact";
import { watchActs } from "./session/session.ts";
import { Shell } from "./shell.tsx";

watchActs();
const page = document.getElementById("console") as HTMLElement;
// Removes the placeholder text of the HTML page.
page.replaceChildren();
render(<Shell />, page);
