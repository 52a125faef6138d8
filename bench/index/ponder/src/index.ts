import { type Event, ponder } from "ponder:registry";
import { messageExecuted, messageIdCreated, messageReceived, messageRouted } from "ponder:schema";

/** Where a log stands. */
function place(event: Event) {
  return {
    blockNumber: Number(event.block.number),
    logIndex: event.log.logIndex,
    blockHash: event.block.hash,
    transactionHash: event.transaction.hash,
  };
}

ponder.on("Router:MessageIdCreated", async ({ event, context }) => {
  await context.db.insert(messageIdCreated).values({ ...place(event), ...event.args });
});

ponder.on("Router:MessageRouted", async ({ event, context }) => {
  await context.db.insert(messageRouted).values({ ...place(event), ...event.args });
});

ponder.on("Router:MessageReceived", async ({ event, context }) => {
  await context.db.insert(messageReceived).values({ ...place(event), ...event.args });
});

ponder.on("Router:MessageExecuted", async ({ event, context }) => {
  await context.db.insert(messageExecuted).values({ ...place(event), ...event.args });
});
