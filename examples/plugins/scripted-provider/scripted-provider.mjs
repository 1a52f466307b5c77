// The provider of scripted_provider.py, in JavaScript.

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Each word with the blank after it. */
const pieces = (content) => content.match(/[^ ]* |[^ ]+$/g) ?? [];

const words = (text) => text.split(/\s+/).filter(Boolean).length;

/** What the messages say by name, the newest last; `asked` is the last one itself. */
function values(messages) {
  const known = {};
  for (const { content } of messages) {
    try {
      const said = JSON.parse(content);
      if (said !== null && typeof said === 'object' && !Array.isArray(said)) {
        Object.assign(known, said);
      }
    } catch {
      // A text like any other.
    }
  }
  return { ...known, asked: messages.at(-1).content };
}

/** Texts with their placeholders filled in, however deep; unknown ones stay. */
function filled(value, known) {
  if (Array.isArray(value)) return value.map((inner) => filled(inner, known));
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, known)]));
  }
  if (typeof value !== 'string') return value;
  return value.replace(/\{\{(\w+)\}\}/g, (whole, name) =>
    Object.hasOwn(known, name) ? text(known[name]) : whole,
  );
}

/** A text as it is, anything else as JSON. */
const text = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

async function chat(request, ctx) {
  const { script, delay_ms: delay = 0 } = ctx.component;
  const spoken = request.messages.filter(({ role }) => role === 'assistant').length;
  let entry = script[Math.min(spoken, script.length - 1)];
  if (typeof entry === 'string') entry = { content: entry };
  if (entry.fail !== undefined) {
    throw Object.assign(new Error(entry.fail), { name: 'ProviderError', status: entry.status });
  }

  const known = values(request.messages);
  const content = filled(entry.content ?? '', known);
  const calls = (entry.tool_calls ?? []).map((call, number) => ({
    id: `call_${spoken}_${number}`,
    name: call.name,
    arguments: JSON.stringify(filled(call.arguments ?? {}, known)),
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
