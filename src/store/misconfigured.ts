/** The store cannot be used as it is set up. The message says to an operator what to do; trying again changes nothing. */
export class StoreMisconfigured extends Error {
  override readonly name = "StoreMisconfigured";
}
