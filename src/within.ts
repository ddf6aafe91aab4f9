/**
 * Waits for something, for a limited time. It goes on after that, but nobody waits for it any more.
 *
 * @param ms how long to wait, in milliseconds; from 0 on down, only what settles within this turn of the event loop
 * @param message of the error when the time is up
 * @throws an Error with this message, or what the promise rejects with
 */
export async function within<T>(ms: number, work: Promise<T>, message: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), Math.max(ms, 0));
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
