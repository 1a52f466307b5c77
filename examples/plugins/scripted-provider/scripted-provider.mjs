// The provider of scripted_provider.py, in JavaScript.

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Each word with the blanks after it. */
const pieces = (content) => content.match(/[^ ]* |[^ ]+$/g) ?? [];

const words = (text) => text.split(/\s+/).filter(Boolean).length;

async function chat(request, ctx) {
  const { script, delay_ms: delay = 0 } = ctx.component;
  const spoken = request.messages.filter(({ role }) => role === 'assistant').length;
  let entry = script[Math.min(spoken, script.length - 1)];
  if (typeof entry === 'string') entry = { content: entry };
  if (entry.fail !== undefined) {
    throw Object.assign(new Error(entry.fail), { name: 'ProviderError', status: entry.status });
  }

  const asked = request.messages.at(-1).content;
  const content = (entry.content ?? '').replaceAll('{{asked}}', () => asked);
  const calls = (entry.calls ?? []).map((call, number) => ({
    id: `call_${spoken}_${number}`,
    name: call.name,
    arguments: JSON.stringify(call.arguments ?? {}),
  }));
  const answer = {
    content,
    finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
    usage: {
      inputTokens: request.messages.reduce((sum, each) => sum + words(each.content), 0),
      outputTokens: words(content),
    },
  };
  if (calls.length > 0) answer.tool_calls = calls;
  if (ctx.stream) {
    for (const piece of pieces(content)) {
      await pause(delay);
      ctx.partial({ content: piece });
    }
    answer.content = ''; // what is returned is the last piece, and adds no text
  }
  return answer;
}

serve({ ScriptedLlm: { chat } });
