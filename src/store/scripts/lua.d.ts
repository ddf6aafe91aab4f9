declare module "*.lua" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an import of a text file has its content as the default
  export default text;
}
