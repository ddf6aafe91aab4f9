import { render } from "preact";
import { watchActs } from "./session/session.ts";
import { Shell } from "./shell.tsx";

watchActs();
const page = document.getElementById("console") as HTMLElement;
// It says that it is loading.
page.replaceChildren();
render(<Shell />, page);
