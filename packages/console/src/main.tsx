import { render } from "preact";
import { watchActs } from "./session/session.ts";
import { Shell } from "./shell.tsx";

watchActs();
render(<Shell />, document.getElementById("console") as HTMLElement);
