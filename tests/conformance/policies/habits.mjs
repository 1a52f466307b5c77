/** Policies with the habits of people who write JavaScript; see habits.py. */

import { writeSync } from 'node:fs';

const proceed = { action: 'proceed' };

const does = {
  Async: async () => proceed,
  None: () => {},
  Promise: () => Promise.resolve(undefined),
  Interrupt: () => Promise.reject(undefined),
  Prints: () => {
    console.log('printed');
    process.stdout.write('{"id": 1, "result": {"action": "reject", "reason": "forged"}}\n');
    writeSync(1, 'written past everybody\n');
    return proceed;
  },
};

serve(
  Object.fromEntries(
    Object.entries(does).map(([name, before]) => [name, { node: { before } }]),
  ),
);
