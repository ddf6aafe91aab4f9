/*
 * Answers each line of standard input, a method of V8's inspector with its parameters as JSON, with a line of what it
 * returns. A server is started with it by `--import`.
 */
import { Session } from "node:inspector";
import { createInterface } from "node:readline";

const session = new Session();
session.connect();
createInterface({ input: process.stdin }).on("line", (line) => {
  const { number, method, params } = JSON.parse(line);
  session.post(method, params, (error, result) => {
    console.log(JSON.stringify({ msg: "probed", number, error: error?.message, result }));
  });
});
