// Tries a node again when it failed of something that may pass.
//
// Settings: {"maxAttempts": 3}, how many attempts there may be for one arrival at a node.

const MAY_PASS = /timed out|429|temporarily/i;

serve({
  RetryPolicy: {
    nodeError: {
      after: ({ outcome }, ctx) => {
        if (!MAY_PASS.test(outcome.error.message)) return { action: 'pass' };
        if (ctx.attempt >= (ctx.component.maxAttempts ?? 3)) return { action: 'pass' };
        return { action: 'retry', delayMs: 100 * ctx.attempt };
      },
    },
  },
});
