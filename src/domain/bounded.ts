/**
 * Sets a value, and moves its key to the end of the map. If the map has more than `max` keys after this, removes the
 * first key.
 */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > max && first !== undefined) map.delete(first);
}
