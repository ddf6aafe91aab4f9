import { parser } from "@prometheus-io/lezer-promql";

/** A label matcher. `text` is the value without the quotes. */
export interface Matcher {
  readonly label: string;
  readonly operator: "=" | "!=" | "=~" | "!~";
  readonly text: string;
}

export interface Selector {
  readonly metric: string;
  readonly matchers: readonly Matcher[];
}

export interface Query {
  readonly selectors: readonly Selector[];
  /** Labels in `by`, `on` and similar clauses. */
  readonly groupedBy: readonly string[];
}

/** Parses a PromQL expression. @throws if the expression is invalid */
export function readQuery(expression: string): Query {
  const selectors: { metric: string; matchers: Matcher[] }[] = [];
  const groupedBy: string[] = [];
  let label = "";
  let operator = "";
  parser.parse(expression).iterate({
    enter(node) {
      const text = expression.slice(node.from, node.to);
      if (node.type.isError) throw new Error(`not PromQL at ${node.from}: ${expression}`);
      if (node.name === "VectorSelector") selectors.push({ metric: "", matchers: [] });
      const selector = selectors.at(-1);
      if (node.name === "Identifier" && selector) selector.metric = text;
      if (node.name === "LabelName") {
        label = text;
        if (node.node.parent?.name === "GroupingLabels") groupedBy.push(text);
      }
      if (node.name === "MatchOp") operator = text;
      const isMatched = node.node.parent?.name === "UnquotedLabelMatcher";
      if (node.name === "StringLiteral" && isMatched && selector) {
        selector.matchers.push({ label, operator: operator as Matcher["operator"], text: text.slice(1, -1) });
      }
    },
  });
  return { selectors, groupedBy };
}

export function isSelected(labels: { readonly [label: string]: string }, { matchers }: Selector): boolean {
  return matchers.every(({ label, operator, text }) => {
    const value = labels[label] ?? "";
    const isEqual = operator.includes("~") ? new RegExp(`^(?:${text})$`).test(value) : value === text;
    return isEqual === operator.startsWith("=");
  });
}
