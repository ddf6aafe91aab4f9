/** The text of a script. */
declare module "*.lua" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: what an import of a text gives
  export default text;
}
