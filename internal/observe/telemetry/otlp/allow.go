package otlp

import "strings"

// allowList has the attributes of OTLP that are stored, by who sends them, each
// with the shape that its value must have. All others are dropped: agents add
// attributes with every release, and some hold what people or models wrote. The
// senders share one list, since service.name is whatever the sender says: not
// the sender, but the shapes keep text out.
var allowList = []allowed{
	{
		sender: "All",
		ids:    "session.id conversation.id session_id thread.id",
		users:  "user.id enduser.pseudo.id",
		words: `service.name service.namespace service.version service.instance.id deployment.environment
			deployment.environment.name env app.version telemetry.sdk.name telemetry.sdk.language
			telemetry.sdk.version telemetry.distro.name telemetry.distro.version os os.name os.type os.version os_version
			host.arch terminal.type event.name event.timestamp event.kind error.type error_type model tool_name
			skill.source skill.kind skill.scope skill.version plugin.name plugin.version plugin.scope marketplace.name`,
		numbers: `event.sequence duration_ms duration success attempt http.response.status_code
			http.status_code status_code`,
		skill: "skill.name skill_name",
	},
	{
		sender: "OpenTelemetry GenAI",
		ids:    "gen_ai.conversation.id gen_ai.tool.call.id gen_ai.tool.call_id gen_ai.response.id",
		words: `gen_ai.operation.name gen_ai.system gen_ai.provider.name gen_ai.request.model gen_ai.response.model
			gen_ai.output.type gen_ai.token.type gen_ai.agent.id gen_ai.agent.name gen_ai.agent.version
			gen_ai.data_source.id gen_ai.tool.name gen_ai.tool.type gen_ai.skill.id gen_ai.skill.version
			gen_ai.evaluation.score.label gen_ai.openai.request.service_tier gen_ai.openai.response.service_tier
			openai.request.service_tier openai.response.service_tier process.executable.name`,
		numbers: `gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.usage.prompt_tokens
			gen_ai.usage.completion_tokens gen_ai.usage.cache_creation.input_tokens gen_ai.usage.cache_write.input_tokens
			gen_ai.usage.cache_read.input_tokens
			gen_ai.usage.reasoning.output_tokens gen_ai.request.choice.count gen_ai.request.max_tokens
			gen_ai.request.stream gen_ai.request.temperature gen_ai.request.top_k gen_ai.request.top_p
			gen_ai.request.frequency_penalty gen_ai.request.presence_penalty gen_ai.request.seed
			gen_ai.response.time_to_first_chunk gen_ai.embeddings.dimension.count gen_ai.evaluation.score.value`,
		names: "gen_ai.skill.resource.name gen_ai.evaluation.name",
		skill: "gen_ai.skill.name",
	},
	{
		sender: "Claude Code",
		ids:    "prompt.id tool_use_id request_id request_body_id message.id message.uuid agent_id",
		words: `anthropic.provider invocation_trigger decision decision_type decision_source source tool_source
			permission_mode speed query_source query_source_safe command_source start_type type language effort
			agent.name agent.source agent_type subagent_type enabled_via plugin_id_hash safe_mode span.type stop_reason
			llm_request.context parent.source final_model git_commit_id command_name tool_name_safe mcp_server.name
			mcp_tool.name managed_settings.trigger
			managed_settings.source_behavior managed_settings.helper.state managed_settings.helper.applied`,
		numbers: `anthropic.custom_base_url prompt_length user_prompt_length response_length body_length body_truncated
			input_tokens output_tokens cache_read_tokens cache_creation_tokens cache_creation_5m_tokens
			cache_creation_1h_tokens total_tokens result_tokens cost_usd cost_usd_micros ttft_ms first_content_ms
			total_tool_uses tool_input_size_bytes tool_result_size_bytes skill_path_count command_path_count
			agent_path_count has_hooks has_mcp host_owned_mcp is_async is_built_in model_swapped queued_sends
			interaction.duration_ms interaction.sequence`,
	},
	{
		sender: "Codex",
		ids:    "turn.id turn_id call_id",
		words: `skill.invocation_type originator model_slug slug reasoning_effort reasoning_summary session_source
			provider_name approval_policy sandbox_policy auth_mode invoke_type status token_type catalog_surface
			plugin_id agent_name tool_namespace codex.tool.phase codex.turn.phase startup.phase startup.status level`,
		numbers: `input_token_count cached_token_count cache_write_token_count output_token_count reasoning_token_count
			tool_token_count tool_result_seq output_truncated aborted busy_ns idle_ns dispatch_to_result_ready_ms
			tmp_mem_enabled`,
		skill: "skill",
	},
	{
		sender: "Copilot",
		ids:    "github.copilot.interaction_id github.copilot.turn_id",
		words: `github.copilot.skill.invocation_trigger github.copilot.skill.plugin_version github.copilot.skill.source
			github.copilot.skill.plugin_name github.copilot.initiator github.copilot.user.message.source`,
		numbers: "github.copilot.cost github.copilot.turn_count",
		skill:   "github.copilot.skill.name github.copilot.tool.parameters.skill_name",
		skills:  "github.copilot.context.skills",
	},
	{
		sender: "Gemini CLI",
		ids:    "prompt_id installation.id response_id",
		words: `tool_type auth_type approval_mode embedding_model output_format finish_reason
			final_error_type memory_type role function_name mcp_server_name extension_name`,
		numbers: `interactive content_length start_time end_time cached_content_token_count thoughts_token_count
			total_token_count tokens_before tokens_after turn_count exit_code mcp_servers_count mcp_tools_count
			extensions_count sandbox_enabled api_key_enabled vertex_ai_enabled debug_mode log_user_prompts_enabled
			worktree_active`,
	},
	{
		sender: "OpenCode, Vercel AI SDK",
		ids:    "ai.toolCall.id ai.response.id ai.telemetry.metadata.sessionId",
		words: `ai.operationId ai.model.id ai.model.provider ai.response.model ai.response.finishReason ai.finishReason
			ai.toolCall.name`,
		numbers: `ai.usage.inputTokens ai.usage.outputTokens ai.usage.promptTokens ai.usage.completionTokens
			ai.usage.totalTokens ai.usage.reasoningTokens ai.usage.cachedInputTokens ai.usage.tokens
			ai.usage.inputTokenDetails.cacheReadTokens ai.usage.inputTokenDetails.cacheWriteTokens
			ai.settings.maxRetries ai.settings.maxOutputTokens ai.response.msToFirstChunk ai.response.msToFinish
			ai.response.avgOutputTokensPerSecond`,
	},
}

// allowed lists attributes, separated by spaces, by their shapes.
type allowed struct {
	sender  string
	ids     string // as words; other text is replaced by a keyed hash, which still joins records
	users   string // replaced by a keyed hash
	words   string // names, versions and enumerations: ASCII without spaces
	numbers string // numbers and flags, also as text
	names   string // names that may have spaces: one line
	skill   string // name of a skill
	skills  string // list of such names
}

// skillArguments are the attributes with the arguments of the tool that loads a
// skill, as JSON. Only the field with the name of the skill is kept.
var skillArguments = map[string]struct{ toolKey, tool, field string }{
	"tool_parameters":  {"tool_name", "Skill", "skill_name"},
	"function_args":    {"function_name", "activate_skill", "name"},
	"ai.toolCall.args": {"ai.toolCall.name", "skill", "name"},
}

// shapes maps the allowed attributes to their shapes.
var shapes = func() map[string]shape {
	all := map[string]shape{}
	for _, a := range allowList {
		for _, group := range []struct {
			keys  string
			shape shape
		}{
			{a.ids, Redactor.id},
			{a.users, Redactor.user},
			{a.words, Redactor.word},
			{a.numbers, Redactor.number},
			{a.names, Redactor.name},
			{a.skill, Redactor.skill},
			{a.skills, Redactor.skillList},
		} {
			for _, key := range strings.Fields(group.keys) {
				all[key] = group.shape
			}
		}
	}
	return all
}()

// namespaces begin the names of events, spans and metrics that are kept.
var namespaces = []string{"claude_code.", "codex.", "gemini_cli.", "gen_ai.", "github.copilot.", "ai."}

// operations are the spans of OpenTelemetry's conventions for generative AI,
// which have no namespace. What follows them, e.g. the name of the tool, is
// dropped.
var operations = []string{
	"chat", "create_agent", "embeddings", "execute_tool", "generate_content", "invoke_agent", "invoke_workflow",
	"text_completion",
}
