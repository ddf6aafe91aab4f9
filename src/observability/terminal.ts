/**
 * Formats a log line for a terminal, without colours: time of day, level, message, and the fields as JSON, so that
 * caller input cannot send control characters to the terminal.
 *
 * @param line JSON, as in the log elsewhere
 */
export function terminalLine(line: string): string {
  // A person reads one process.
  const { time, level, msg, pid: _, ...fields } = JSON.parse(line) as { [field: string]: unknown };
  const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${printable(JSON.stringify(value))}`);
  const clock = new Date(String(time)).toTimeString().slice(0, 8);
  return `${clock} ${String(level).toUpperCase().padEnd(5)} ${String(msg)}${shown.join("")}\n`;
}

/** Escapes DEL and the C1 control characters, which some terminals interpret. JSON escapes the other ones. */
function printable(json: string): string {
  return json.replace(/[\u007f-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
}
