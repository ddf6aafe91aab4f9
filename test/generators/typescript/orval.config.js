// biome-ignore lint/style/noDefaultExport: orval reads it
export default {
  ugs: {
    input: { target: process.env.DOCUMENT },
    output: { target: "orval/api.ts", client: "fetch", baseUrl: process.env.URL },
  },
};
