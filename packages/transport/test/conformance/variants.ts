/** The servers that the suite tests, by what they are called. */
export const VARIANTS = { port: "our port", adapter: "Connect's adapter" } as const;
