// What a TypeScript client may write against the types that are generated from
// the OpenAPI document. It is compiled with tsc --strict, and never run.
import type { components, paths } from "./openapi";

type Schemas = components["schemas"];

// Fields with a default may be left out.
export const alert: Schemas["AlertsCreateInputBody"] = {
  type: "no_data",
  channel: "email",
  config: { email: "oncall@example.org" },
};
export const connection: Schemas["RepohostConnectInputBody"] = {
  entry_id: "e",
  installation_id: 1,
  repo_full_name: "acme/skills",
};

// Null is declared where it is sent: a time, an object, a word of an enumeration.
export function nulls(key: Schemas["AuthKeyOutput"], run: Schemas["EvalsRunOutput"], c: Schemas["EvalsCaseOutput"]) {
  const expires: string | null = key.expires_at;
  const compared: Schemas["EvalsComparisonOutput"] | null = run.baseline_result;
  const verdict: "pass" | "fail" | "error" | "skipped" | null = c.baseline_verdict;
  // @ts-expect-error: it may be null
  const wrong: string = key.expires_at;
  return [expires, compared, verdict, wrong];
}

// Lists are never null.
export const keys = (out: Schemas["AuthListKeysOutput"]): number => out.keys.length;

// Bodies have their own media types.
type Content<P extends keyof paths> = paths[P] extends { get: { responses: { 200: { content: infer C } } } } ? C : never;
export const diff: Content<"/api/v1/registry/{id}/versions/{version}/diff">["text/x-diff"] = "+a line";
type Logs = paths["/v1/logs"]["post"];
export const logs: NonNullable<Logs["requestBody"]>["content"]["application/json"] = { resourceLogs: [] };
export const partial = (out: Logs["responses"][200]["content"]["application/json"]): string | undefined =>
  out.partialSuccess?.rejectedLogRecords;
export const status = (out: Logs["responses"][400]["content"]["application/json"]): number => out.code;
