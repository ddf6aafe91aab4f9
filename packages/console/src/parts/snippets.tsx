import { useState } from "preact/hooks";
import { CopyButton } from "./copy.tsx";

/** Programs that make the same call, one per language. The key is the name of the language. */
export type Programs = { readonly [language: string]: string };

export function Snippets({ label, programs }: { readonly label: string; readonly programs: Programs }) {
  const languages = Object.keys(programs);
  const [chosen, setChosen] = useState(languages[0] ?? "");
  const text = programs[chosen] ?? "";
  return (
    <div class="snippets">
      <div class="card-heading">
        <fieldset class="choices">
          <legend class="unseen">{label}</legend>
          {languages.map((language) => (
            <button
              key={language}
              type="button"
              class="plain"
              aria-pressed={language === chosen}
              onClick={() => setChosen(language)}
            >
              {language}
            </button>
          ))}
        </fieldset>
        <CopyButton text={text} what="the program" />
      </div>
      <pre>{text}</pre>
    </div>
  );
}
