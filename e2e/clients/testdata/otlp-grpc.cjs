// Sends records as an agent does whose variables ask for OTLP by gRPC, and prints
// what became of each batch.
const { LoggerProvider } = require("@opentelemetry/sdk-logs");
const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-grpc");
const { resourceFromAttributes } = require("@opentelemetry/resources");

const exporter = new OTLPLogExporter();
const processor = {
  batch: [],
  onEmit(record) { this.batch.push(record); },
  forceFlush: async () => {},
  shutdown: async () => {},
};
const provider = new LoggerProvider({
  resource: resourceFromAttributes({ "service.name": "claude-code" }),
  processors: [processor],
});
const logger = provider.getLogger("com.anthropic.claude_code.events");
for (let i = 0; i < 20; i++) {
  logger.emit({
    timestamp: Date.now() - i * 1000,
    body: "claude_code.skill_activated",
    attributes: {
      "event.name": "skill_activated", "session.id": "session-of-grpc", "prompt.id": `p${i}`,
      "skill.name": "pdf-forms", "invocation_trigger": "claude-proactive",
    },
  });
}
exporter.export(processor.batch, async (result) => {
  console.log(JSON.stringify({ code: result.code, error: result.error && result.error.message }));
  await exporter.shutdown();
});
