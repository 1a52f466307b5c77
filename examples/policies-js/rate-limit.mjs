// Waits and asks a model again when it says that it is asked too much.
//
// Settings: {"delayMs": 1000}, how long to wait when the provider does not say. heddle itself
// bounds the attempts at three.

serve({
  RateLimitPolicy: {
    modelCall: {
      after: ({ outcome }, ctx) => {
        if (outcome.ok) return { action: 'pass' };
        const { status, message, retryAfterMs } = outcome.error;
        if (status !== 429 && !/429|timed out/.test(message)) return { action: 'pass' };
        return { action: 'retry', delayMs: retryAfterMs ?? ctx.component.delayMs ?? 1000 };
      },
    },
  },
});
