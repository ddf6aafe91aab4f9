import { EVENT_TYPES } from "../../../../src/domain/events.ts";
import { InvalidInput } from "../../../operator/src/input.ts";
import { CheckField, type Fields, TextField } from "../parts/field.tsx";

export interface WebhookValues {
  readonly displayName: string;
  readonly url: string;
  /** Whether the webhook receives all event types, including the types that a later release adds. */
  readonly isOfAllTypes: boolean;
  /** The selected event types. The form keeps these types while `isOfAllTypes` is set. */
  readonly eventTypes: readonly string[];
}

export const NO_VALUES: WebhookValues = { displayName: "", url: "", isOfAllTypes: true, eventTypes: [] };

/** Converts the values of the form to the fields of a request. @throws InvalidInput if a required value is missing */
export function fieldsIn({ displayName, url, isOfAllTypes, eventTypes }: WebhookValues) {
  if (displayName.trim() === "")
    throw new InvalidInput("Give the webhook a name, such as the name of the receiving system.", "Name");
  if (url.trim() === "") throw new InvalidInput("Give the URL that receives the events.", "URL");
  if (!isOfAllTypes && eventTypes.length === 0)
    throw new InvalidInput("Choose at least one event type, or all event types.");
  return { displayName, url: url.trim(), eventTypes: isOfAllTypes ? [] : [...eventTypes] };
}

export function WebhookFieldset({ field }: Pick<Fields<WebhookValues>, "field">) {
  const isOfAllTypes = field("isOfAllTypes");
  const { value: eventTypes, onValue: setEventTypes } = field("eventTypes");
  // The webhook may have event types of a later release, which are not in `EVENT_TYPES`. The form keeps these types.
  const types = [...new Set([...EVENT_TYPES, ...eventTypes])];
  const choose = (type: string, isChosen: boolean) =>
    setEventTypes(types.filter((each) => (each === type ? isChosen : eventTypes.includes(each))).sort());
  return (
    <>
      <TextField
        label="Name"
        hint="A name for people, such as the name of the receiving system."
        {...field("displayName")}
      />
      <TextField
        label="URL"
        hint="The URL must start with https://, and its host must have a public address. Callers of role admin can read the URL, so the URL must not contain a secret."
        {...field("url")}
      />
      <CheckField label="All event types, including types of later releases" {...isOfAllTypes} />
      {!isOfAllTypes.value && (
        <fieldset>
          <legend>Event types</legend>
          <div class="columns">
            {types.map((type) => (
              <CheckField
                key={type}
                label={type}
                value={eventTypes.includes(type)}
                onValue={(value) => choose(type, value)}
              />
            ))}
          </div>
        </fieldset>
      )}
    </>
  );
}
